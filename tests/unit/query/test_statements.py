"""The SQL of a read is the same, whichever thread is the first to need it."""

import subprocess
import sys

# A thread that writes a statement while the dialect is being loaded by another, which is slow here.
PROGRAM = """
import threading, time
from sqlglot import exp
from sqlglot.dialects import dialect
from omnigraph.query.steps import Relational

half_loaded = threading.Event()
fast = dialect.new_trie

def slow(*given):
    if "duckdb" in dialect.Dialect._classes:
        half_loaded.set()
        time.sleep(0.02)
    return fast(*given)

dialect.new_trie = slow
statement = Relational(exp.select(exp.Placeholder(this="v0")), {})
first = threading.Thread(target=statement.duckdb_sql)
first.start()
assert half_loaded.wait(60)
print(statement.duckdb_sql())
first.join()
"""


def test_a_statement_is_not_written_in_a_dialect_that_is_half_loaded() -> None:
    ended = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=120, check=True)
    assert ended.stdout == "SELECT $v0\n", ended.stderr
