"""pyarrow answers the same with the stand-in for pandas as without it, and imports pandas only when it is used."""

import subprocess
import sys

DEFER = "import omnigraph.storage.pandas_later as later; later.defer_pandas()"
WITHOUT_PANDAS = (
    "pa.array([1, None], pa.int64())",
    "pa.array(['a'], pa.string())",
    "pa.array(np.arange(3))",
    "pa.array(np.array(['2020-01-01'], 'M8[s]'))",
    "pa.array(np.array(['a', None], dtype=object), pa.string())",
    "pa.scalar(7, pa.int32())",
    "pa.table({'a': pa.array([1], pa.int64())}).to_pylist()",
    "pa.scalar(1, pa.timestamp('us', 'UTC')).as_py()",
)
WITH_PANDAS = (
    "pa.scalar(1, pa.timestamp('ns')).as_py()",
    "pa.array([1, 2.5, None])",
    "pa.scalar(1, pa.timestamp('ns', 'Europe/Berlin')).as_py()",
    "pa.scalar(1, pa.duration('ns')).as_py()",
    "pa.table({'a': ['x', None], 'b': [1, 2]}).to_pandas().dtypes",
    "pa.array(['x', 'y', 'x']).dictionary_encode().to_pandas()",
    "pa.array(pd().Series([1.0, float('nan')]))",
    "pa.array(pd().Index(['a', 'b']))",
    "pa.array(pd().Categorical(['a', 'b', 'a']))",
    "pa.array(pd().array([1, None], dtype='Int64'))",
    "pa.array(pd().Series(pd().date_range('2020', periods=2, tz='UTC')))",
    "pa.array([pd().NaT, pd().Timestamp('2020-01-01')], from_pandas=True)",
    "pa.array([pd().NA, 1], from_pandas=True)",
    "pa.array([pd().Timedelta(1, 'ns')])",
    "pa.table(pd().DataFrame({'a': [1, None], 'b': ['x', 'y']})).schema.metadata",
    "pa.Table.from_pandas(pd().DataFrame({'a': [1]}, index=['r'])).schema",
    "pa.Schema.from_pandas(pd().DataFrame({'a': pd().array([1], dtype='Int64')}))",
    "pa.lib._pandas_api.is_data_frame(pd().DataFrame())",
    "pa.lib._pandas_api.infer_dtype(['a'])",
    "pa.lib._pandas_api.version",
)


def run(script: str) -> str:
    return subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout


def evaluate_all(before: str) -> list[str]:
    """What pyarrow makes of values of pandas, which the first of them imports."""
    script = f"""
import sys, numpy as np, pyarrow as pa, pyarrow.compute
{before}
import pyarrow.dataset
def pd():
    import pandas
    return pandas
for expression in {WITH_PANDAS!r}:
    found = eval(expression)
    print(expression, type(found), found, "\\0")
"""
    return run(script).split("\0")


def test_values_of_pandas_are_treated_as_by_pyarrow_alone() -> None:
    for deferred, alone in zip(evaluate_all(DEFER), evaluate_all(""), strict=True):
        assert deferred == alone


def test_values_without_pandas_do_not_import_it() -> None:
    values = "\n".join(f"print({each})" for each in WITHOUT_PANDAS)
    imports = "import sys, numpy as np, pyarrow as pa"
    deferred = run(f"{imports}\n{DEFER}\nimport lance\n{values}\nassert 'pandas' not in sys.modules")
    assert deferred == run(f"{imports}\nimport lance\n{values}")


def test_what_was_imported_before_is_left_alone() -> None:
    script = f"import pandas, pyarrow as pa\n{DEFER}\nprint(pa.lib._pandas_api.pd is pandas)"
    assert run(script) == "True\n"


def test_threads_that_import_pandas_meanwhile_can_use_it() -> None:
    script = f"""
import threading, pyarrow as pa
found = []
def use():
    import pandas as pd
    found.append(pa.array(pd.Series([1.0, float("nan")])).null_count)
threads = [threading.Thread(target=use) for _ in range(4)]
for each in threads:
    each.start()
{DEFER}
for each in threads:
    each.join()
print(found)
"""
    assert run(script) == "[1, 1, 1, 1]\n"


def test_nothing_is_given_where_pandas_is_not_found() -> None:
    script = f"""
import sys, importlib.util
importlib.util.find_spec = lambda name: None
import pyarrow as pa
{DEFER}
print(pa.lib._pandas_api.pd is sys.modules["pandas"])
"""
    assert run(script) == "True\n"
