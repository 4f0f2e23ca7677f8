"""Lance is imported without `pyarrow.dataset` and `pyarrow.compute`, and both can be used as ever."""

import subprocess
import sys

import pytest

WRITE = """
import omnigraph.storage, lance, sys, pyarrow as pa, tempfile, pathlib
folder = pathlib.Path(tempfile.mkdtemp())
table = pa.table({"x": pa.array([1, 2, 3], pa.int64())})
data = lance.write_dataset(table, str(folder / "t.lance"))
"""
LATER = ("pyarrow.dataset", "pyarrow.compute")


def run(script: str) -> str:
    return subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout


def test_lance_reads_and_writes_without_the_modules() -> None:
    script = f"""{WRITE}
assert data.count_rows() == 3 and data.to_table(filter="x > 1").num_rows == 2
assert next(iter(data.get_fragments())).count_rows() == 3
print([name for name in {LATER!r} if name in sys.modules])
"""
    assert run(script) == "[]\n"


@pytest.mark.parametrize(
    "use",
    [
        "import pyarrow.dataset as ds; data.count_rows(ds.field('x') > 1)",
        "import pyarrow.compute as pc; data.count_rows(pc.field('x') > 1)",
        "data.count_rows(pa.compute.field('x') > 1)",
        "data.to_table(filter=pa.dataset.field('x') > 1).num_rows",
        "lance.write_dataset(pa.dataset.dataset(table), folder / 'u.lance').count_rows() - 1",
        "isinstance(data, pa.dataset.Dataset) + 1",
        "import pyarrow.dataset as ds; issubclass(lance.LanceDataset, ds.Dataset) + 1",
        "import pyarrow.dataset as ds; ds.dataset([table, table]).count_rows() - 4",
    ],
)
def test_the_modules_are_there_when_they_are_used(use: str) -> None:
    before, _, value = use.rpartition("; ")
    print_them = "\nassert isinstance(pa.compute.equal, object) and pa.dataset.__name__ == 'pyarrow.dataset'"
    assert run(f"{WRITE}\n{before}\nprint({value}){print_them}") == "2\n"


def test_the_imported_modules_take_the_places_of_the_stand_ins() -> None:
    script = f"""{WRITE}
import pyarrow.dataset
for name in {LATER!r}:
    module = sys.modules[name]
    assert getattr(pa, name.partition(".")[2]) is module and module.__file__, name
"""
    run(script)


def test_modules_that_were_imported_before_are_left_alone() -> None:
    assert run(f"import pyarrow.dataset as ds{WRITE}\nprint(sys.modules['pyarrow.dataset'] is ds is pa.dataset)") == (
        "True\n"
    )


def test_threads_that_import_the_modules_meanwhile_can_use_them() -> None:
    script = """
import threading, omnigraph.storage, pyarrow as pa
start, found = threading.Barrier(5), []
def use():
    start.wait()
    import pyarrow.dataset as ds
    found.append(ds.dataset(pa.table({"x": pa.array([1], pa.int64())})).count_rows())
threads = [threading.Thread(target=use) for _ in range(4)]
for each in threads:
    each.start()
start.wait()
import lance
for each in threads:
    each.join()
print(found)
"""
    assert run(script) == "[1, 1, 1, 1]\n"
