"""Many processes change one graph while others are killed, stopped and run with wrong clocks.

`run.py` starts the processes and harms them, `worker.py` changes the graph and journals what was acknowledged,
`reader.py` reads what is there meanwhile, `inspector.py` reads all of it at the end, and `judge.py` compares that with
the journals. It is a program of its own too: `python -m tests.consistency --help`.
"""
