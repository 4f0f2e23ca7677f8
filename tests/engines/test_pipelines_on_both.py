"""A pipeline gives the same graph in this process and on Spark, with the same counts and rejected rows."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

import omnigraph as og
from omnigraph.pipelines import PipelineRun, positions, read_pipeline
from omnigraph.pipelines.definition import Increment
from tests.behaviour.shop import TEXT, content, make_shop, write_customers, write_orders
from tests.behaviour.test_pipeline_changes import accounts, write_changes

VALUES = """
pipeline: values
sources:
  things: {files: things.parquet}
  lines: {files: lines.csv, columns: {name: string, size: int, day: date}}
views:
  sized: |
    select l.name, l.size / 2 as half, coalesce(t.note, 'none') as note, l.day, year(l.day) as year,
           case when l.size > 2 then 'large' else 'small' end as kind, split(t.note, ' ') as words
    from lines l left join things t on t.name = l.name
nodes:
  Thing:
    view: sized
    properties:
      {name: lower(name), half: half, note: note, day: day, year: year, kind: kind, words: words}
"""

ALL = """
query all {
    match { $t: Thing }
    return {
        $t.name as name, $t.half as half, $t.note as note, $t.year as year, $t.kind as kind, $t.words as words
    }
    order { name }
}
"""


@pytest.fixture(params=["local", "spark"])
def engine(request: pytest.FixtureRequest, spark: SparkSession) -> str:
    return str(request.param)


def outcome(run: PipelineRun) -> Any:
    """What must be the same on both."""
    return run.sources, run.nodes, run.edges, [(each.name, each.violations, each.rows) for each in run.expectations]


def test_runs_give_the_same_graph(tmp_path: Path, spark: SparkSession) -> None:
    found = {}
    for engine in ("local", "spark"):
        folder = tmp_path / engine
        folder.mkdir()
        graph, shop = make_shop(folder)
        first = shop.run(graph, engine=engine)
        assert (first.engine, first.rejected_rows) == (engine, 2)
        write_customers(folder, 2, [(9, "Zoe, of \n Graz", "at")])
        write_orders(folder, 2, [(9, "C", 2, 1.0)])
        second = shop.run(graph, engine=engine)
        third = shop.run(graph, engine=engine, replay=[first.run])
        assert shop.run(graph, engine=engine).commit is None
        rejected = [
            {key: value for key, value in row.items() if key != "__run"}
            for row in pq.read_table(folder / "rejected" / first.run / "customers").to_pylist()
        ]
        found[engine] = content(graph), outcome(first), outcome(second), outcome(third), rejected
    assert found["local"] == found["spark"]


def test_expressions_give_the_same_values(tmp_path: Path, engine: str) -> None:
    pq.write_table(pa.table({"name": ["A", "B"], "note": ["x y", None]}), tmp_path / "things.parquet")
    (tmp_path / "lines.csv").write_text("name,size,day\nA,3,2024-02-29\nB,,\nC,1,2020-01-01\n")
    (tmp_path / "values.yaml").write_text(VALUES)
    graph = og.init(
        tmp_path / "graph",
        """
        node Thing {
            name: String @key, half: F64?, note: String?, day: Date?, year: I64?, kind: String?, words: [String]?
        }
        """,
    )
    read_pipeline(tmp_path / "values.yaml").run(graph, engine=engine)
    names = ("name", "half", "note", "year", "kind", "words")
    assert graph.query(ALL).table.to_pylist() == [
        dict(zip(names, row, strict=True))
        for row in (
            ("a", 1.5, "x y", 2024, "large", ["x", "y"]),
            ("b", None, "none", None, "small", None),
            ("c", 0.5, "none", 2020, "small", None),
        )
    ]


def people(spark: SparkSession) -> DataFrame:
    """Rows that a function makes."""
    return spark.createDataFrame([("Ada", 36), ("Bob", 41)], "name string, age int")


def test_data_frames_of_functions_and_formats_of_spark_are_sources(tmp_path: Path, spark: SparkSession) -> None:
    spark.createDataFrame([("Ada", "Bob")], "one string, other string").write.parquet(str(tmp_path / "knows"))
    text = f"""
pipeline: people
sources:
  people: {{function: "tests.engines.test_pipelines_on_both:people"}}
  knows: {{spark: parquet, options: {{path: "{tmp_path}/knows"}}}}
nodes:
  Person: {{view: people}}
edges:
  Knows: {{view: knows, from: one, to: other, id: "concat(one, '-', other)"}}
"""
    graph = og.init(tmp_path / "graph", "node Person { name: String @key, age: I32? }\nedge Knows: Person -> Person")
    done = read_pipeline(text, folder=tmp_path).run(graph)
    assert (done.engine, done.why) == ("spark", "the source `people` is a data frame of Spark")
    assert (done.nodes, done.edges) == ({"Person": 2}, {"Knows": 1})


def test_what_duckdb_does_not_accept_runs_on_spark(tmp_path: Path, spark: SparkSession) -> None:
    text = TEXT.replace("trim(name)", "soundex(trim(name))")
    graph, shop = make_shop(tmp_path, text)
    assert shop.validate(graph) == ()
    done = shop.run(graph)
    assert (done.engine, done.why) == ("spark", "DuckDB does not accept the definition")
    assert [each["data"]["name"] for each in content(graph) if each.get("type") == "Customer"] == ["A300", "B100"]


EXPRESSIONS = {
    "I64": (
        *("n + 1", "n * n - 2", "n % 2", "abs(-n)", "length(s)", "cast(d as bigint)", "cast('12' as bigint)"),
        *("cast(d * 3 as int)", "cast(2.5 as bigint)", "try_cast('12.7' as int)", "-n div 2", "n div 2", "-n % 2"),
        *("cast(s is null as int)", "cast(' 7 ' as int)", "try_cast(s as bigint)", "nullif(n, 2)", "sign(-n)"),
        *("year(day)", "month(day)", "day(day)", "dayofmonth(day)", "quarter(day)", "second(at)"),
        *("hour(at)", "minute(at)", "datediff(day, date '2024-01-01')"),
        *("coalesce(n, 0)", "greatest(n, 2)", "least(n, 2)", "floor(d)", "ceil(d)", "nvl2(n, 1, 0)"),
        *("size(split(s, ' '))", "locate('b', s)", "instr(s, 'b')", "array(n, 7)[1]", "element_at(array(n, 7), 2)"),
        "case when n is null then -1 when n > 1 then 1 else 0 end",
    ),
    "F64": (
        *("d / 2", "n / 2", "d * d", "sqrt(abs(d))", "power(2, 3)", "cast(n as double)", "cast('1.5' as double)"),
        *("n / -2", "-d"),
    ),
    "String": (
        *("upper(s)", "lower(s)", "trim(s)", "ltrim('  a')", "rtrim('a  ')", "concat(s, '-', n)", "s || '!'", "s || n"),
        *("substring(s, 1, 2)", "substring(s, 2)", "left(s, 1)", "right(s, 1)", "replace(s, 'b', 'x')", "reverse(s)"),
        *("cast(n as string)", "cast(day as string)", "cast(n > 1 as string)", "lpad(cast(n as string), 3, '0')"),
        *("regexp_extract(s, '([a-z]+) *([A-Z]*)', 1)", "regexp_extract(s, '([a-z]+) *([A-Z]*)', 2)"),
        *("regexp_replace(s, '[aeiou]', '_')", "split(concat(s, ' '), ' ')[0]", "concat_ws('+', s, null, 'z')"),
        *("date_format(day, 'yyyy/MM')", "date_format(at, 'yyyy-MM-dd HH:mm:ss')", "md5('a')", "repeat('ab', 2)"),
        *("if(n > 1, 'many', 'few')", "nvl(s, 'none')", "concat(floor(d), '')", "concat(n div 2, day)"),
    ),
    "Bool": (
        *("n > 1", "n between 1 and 2", "n in (1, 3)", "s is null", "not (n = 1)", "n <=> null", "d < 0 or n = 2"),
        *("s like 'a%'", "s rlike '^a.*B$'", "contains(s, 'b')", "startswith(s, 'a')", "endswith(s, 'B')"),
        *("array_contains(array(n, 2), 2)", "cast('y' as boolean)", "cast(n - 1 as boolean)"),
    ),
    "Date": ("day", "date_add(day, 3)", "date_sub(day, 3)", "last_day(day)", "cast('2024-02-29' as date)"),
    "DateTime": ("at", "cast('2024-02-29 12:30:00' as timestamp)", "date_trunc('hour', at)", "at + interval 1 day"),
}
REFUSED = ("round(d, 1)", "hash(s)", "dayofweek(day)", "cast(d as string)", "concat(d, '')", "to_date(s, 'dd.MM.yyyy')")
"""What DuckDB has as well, and computes or spells in another way."""


def test_many_expressions_give_the_same_values(tmp_path: Path, spark: SparkSession) -> None:
    at = pa.array([0, 1_709_210_096_789_000, None, 951_782_400_000_000], pa.timestamp("us", "UTC"))
    rows = {
        "name": ["1", "2", "3", "4"],
        "n": pa.array([1, 2, 3, None], pa.int64()),
        "d": [1.25, -2.5, 0.0, None],
        "s": ["ab  B", "", None, "abc B"],
        "day": pa.array([0, 19_782, None, -1], pa.date32()),
        "at": at,
    }
    pq.write_table(pa.table(rows), tmp_path / "rows.parquet")
    named = [(type, text) for type, texts in EXPRESSIONS.items() for text in texts]
    properties = {"name": "name", **{f"p{index}": text for index, (_, text) in enumerate(named)}}
    declared = ", ".join(f"p{index}: {type}?" for index, (type, _) in enumerate(named))
    pipeline = read_pipeline(
        {
            "pipeline": "expressions",
            "sources": {"rows": {"files": "rows.parquet"}},
            "nodes": {"Row": {"view": "rows", "properties": properties}},
        },
        folder=tmp_path,
    )
    found = {}
    for engine in ("local", "spark"):
        graph = og.init(tmp_path / engine, f"node Row {{ name: String @key, {declared} }}")
        assert pipeline.run(graph, engine=engine).engine == engine
        found[engine] = [record["data"] for record in content(graph)]
    different = [
        (text, here.get(f"p{index}"), there.get(f"p{index}"))
        for here, there in zip(found["local"], found["spark"], strict=True)
        for index, (_, text) in enumerate(named)
        if here.get(f"p{index}") != there.get(f"p{index}")
    ]
    assert different == []


@pytest.mark.parametrize("expression", REFUSED)
def test_what_the_engines_compute_in_different_ways_is_not_run_in_the_process(tmp_path: Path, expression: str) -> None:
    rows = {"s": ["a"], "d": [1.5], "day": pa.array([0], pa.date32())}
    pq.write_table(pa.table(rows), tmp_path / "rows.parquet")
    pipeline = read_pipeline(
        {
            "pipeline": "refused",
            "sources": {"rows": {"files": "rows.parquet"}},
            "views": {"computed": f"select {expression} as value, s as name from rows"},
            "nodes": {"Row": {"view": "computed", "properties": {"name": "name"}}},
        },
        folder=tmp_path,
    )
    graph = og.init(tmp_path / "graph", "node Row { name: String @key }")
    assert [each.code.value for each in pipeline.validate(graph, engine="local")] == ["D107"]


@pytest.mark.parametrize(
    "expression", ["n / 0", "n % 0", "n div 0", "cast('x' as int)", "array(n)[3]", "cast('1.5' as int)"]
)
def test_what_has_no_value_ends_a_run_on_both(tmp_path: Path, spark: SparkSession, expression: str) -> None:
    pq.write_table(pa.table({"name": ["a"], "n": [1]}), tmp_path / "rows.parquet")
    pipeline = read_pipeline(
        {
            "pipeline": "fails",
            "sources": {"rows": {"files": "rows.parquet"}},
            "views": {"computed": f"select name, {expression} as value from rows"},
            "nodes": {"Row": {"view": "computed"}},
            "expectations": [{"name": "there", "view": "computed", "check": "value > 0", "action": "warn"}],
        },
        folder=tmp_path,
    )
    graph = og.init(tmp_path / "graph", "node Row { name: String @key, value: F64 }")
    for engine in ("local", "spark"):
        with pytest.raises(og.ExpectationFailed, match="`fails` wrote nothing"):
            pipeline.run(graph, engine=engine)
    assert content(graph) == []


def test_changes_and_formed_ids_and_missing_ends_give_the_same_graph(tmp_path: Path, spark: SparkSession) -> None:
    found = {}
    for engine in ("local", "spark"):
        folder = tmp_path / engine
        folder.mkdir()
        graph, pipeline = accounts(folder)
        write_changes(folder, 1, [(1, "Ada", 1.0, 1, "c"), (1, "Ada", 2.0, 3, "u"), (2, "Bob", 3.0, 2, "c")])
        first = pipeline.run(graph, engine=engine)
        write_changes(folder, 2, [(2, None, None, 5, "d"), (1, "Ada", 9.0, 2, "u"), (7, None, 1.0, 4, "d")])
        second = pipeline.run(graph, engine=engine)
        assert first.commit is not None
        assert second.commit is not None
        found[engine] = content(graph), outcome(first), outcome(second), second.commit.applied
    assert found["local"] == found["spark"]


def test_texts_and_keys_of_several_columns_give_the_same_graph(tmp_path: Path, spark: SparkSession) -> None:
    (tmp_path / "seats.txt").write_text("main 7 Ada\n\nmain 8 Bob\r\nnorth 1 Eve\n")
    text = r"""
pipeline: seats
sources: {lines: {files: seats.txt}}
views:
  seats: |
    select split(value, ' ')[0] as building, cast(split(value, ' ')[1] as int) as number, split(value, ' ')[2] as person
    from lines where length(trim(value)) > 0
  people: select person as name from seats
  rooms: select * from seats where number > 1
  sits: select person, concat('["', building, '","', number, '"]') as room from seats
nodes:
  Room: {view: rooms, properties: {building: building, number: number}}
  Person: {view: people}
edges:
  SitsIn: {view: sits, from: person, to: room, id: [from]}
missing_ends: quarantine
quarantine: rejected
publish: {mode: overwrite}
"""
    schema = """
    node Room { building: String, number: I32, @key(building, number) }
    node Person { name: String @key }
    edge SitsIn: Person -> Room
    """
    found = {}
    for engine in ("local", "spark"):
        graph = og.init(tmp_path / engine, schema)
        done = read_pipeline(text, folder=tmp_path).run(graph, engine=engine)
        found[engine] = content(graph), outcome(done), done.rejected_rows
    assert found["local"] == found["spark"]
    assert found["local"][2] == 1


def test_another_graph_gives_the_same_rows(tmp_path: Path, spark: SparkSession) -> None:
    shops, shop = make_shop(tmp_path)
    shop.run(shops)
    copies = read_pipeline(
        {
            "pipeline": "copies",
            "sources": {
                "customers": {"graph": "shop.omni", "type": "Customer", "increment": "changes"},
                "bought": {"graph": "shop.omni", "type": "Bought"},
            },
            "views": {
                "people": "select number, name, _commit_version as version, _change_type as change from customers"
            },
            "nodes": {
                "Person": {
                    "view": "people",
                    "properties": {"number": "number", "name": "name"},
                    "sequence": "version",
                    "delete": "change = 'delete'",
                }
            },
            "edges": {},
        },
        folder=tmp_path,
    )
    graphs = {
        engine: og.init(tmp_path / f"{engine}.omni", "node Person { number: I64 @key, name: String }")
        for engine in ("local", "spark")
    }
    first = {engine: copies.run(graph, engine=engine).sources for engine, graph in graphs.items()}
    write_customers(tmp_path, 2, [(3, "Rob", "fr"), (4, "Eve", "fr")])
    shop.run(shops)
    shops.mutate("query gone { delete Customer where number = 1 }")
    second = {engine: copies.run(graph, engine=engine).sources for engine, graph in graphs.items()}
    assert first["local"] == first["spark"] == {"customers": 2, "bought": 2}
    assert second["local"] == second["spark"]
    assert content(graphs["local"]) == content(graphs["spark"])
    assert [record["data"]["name"] for record in content(graphs["spark"])] == ["Rob", "Eve"]


def test_a_value_that_cannot_be_cast_ends_a_run_on_both(tmp_path: Path, engine: str) -> None:
    graph, shop = make_shop(tmp_path)
    (tmp_path / "landing/customers-2.csv").write_text("number,name,country\nseven,Eve,uk\n")
    with pytest.raises(og.ExpectationFailed, match="seven"):
        shop.run(graph, engine=engine)
    assert content(graph) == []


def test_rejected_rows_in_a_table_of_spark_can_be_read_again(tmp_path: Path, spark: SparkSession) -> None:
    table = f"rejected_{tmp_path.name}"
    text = TEXT.replace("quarantine: rejected", f"quarantine: {{table: {table}}}")
    graph, shop = make_shop(tmp_path, text)
    columns = "rule string, view string, run string, row string"
    spark.sql(f"CREATE TABLE {table} ({columns}) USING parquet LOCATION '{tmp_path}/table'")
    try:
        first = shop.run(graph)
        assert (first.engine, first.why, first.rejected_rows) == ("spark", "the quarantine is a table of Spark", 2)
        rows = sorted((row["rule"], row["view"], row["run"]) for row in spark.table(table).collect())
        assert rows == [("named", "customers", first.run), ("the node of `from` is missing", "Bought-2", first.run)]
        write_customers(tmp_path, 2, [(9, "Zoe", "at")])
        shop.run(graph)
        again = shop.run(graph, replay=[first.run])
        assert (again.edges, again.rejected_rows) == ({"Bought": 1}, 1)
        assert graph.entity("Bought", "9 B") is not None
        with pytest.raises(og.UsageError, match="were read again"):
            shop.run(graph, replay=[first.run])
    finally:
        spark.sql(f"drop table if exists {table}")


def test_a_function_that_is_told_its_position_gives_what_comes_next(tmp_path: Path, spark: SparkSession) -> None:
    given = ["Ada", "Bob"]

    def next_people(spark: SparkSession, position: str | None) -> tuple[DataFrame, str]:
        start = int(position or "0")
        return spark.createDataFrame([(name,) for name in given[start:]], "name string"), str(len(given))

    people = read_pipeline(
        {
            "pipeline": "people",
            "sources": {"people": {"function": next_people, "increment": "position"}},
            "nodes": {"Person": {"view": "people"}},
        }
    )
    graph = og.init(tmp_path / "graph", "node Person { name: String @key }")
    assert people.run(graph).sources == {"people": 2}
    assert people.run(graph).commit is None
    given.append("Eve")
    assert people.run(graph).sources == {"people": 1}
    assert people.status(graph).after == {"people": "3"}
    assert people.run(graph, full=True).sources == {"people": 3}


class Messages(DataSource):
    """Stands in for Kafka, whose reader does not come with Spark: topics in a file, read between given offsets."""

    @classmethod
    def name(cls) -> str:
        return "messages_of_tests"

    def schema(self) -> str:
        return "value string, topic string, partition int, offset bigint"

    def reader(self, schema: StructType) -> "MessageReader":  # noqa: ARG002 - Spark's
        return MessageReader(dict(self.options))


class MessageReader(DataSourceReader):
    """Reads `log` from `startingOffsets` to `endingOffsets`, as Kafka's reader takes them."""

    def __init__(self, options: dict[str, str]) -> None:
        self._options = options

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(0)]

    def read(self, partition: InputPartition) -> Iterator[tuple[str, str, int, int]]:  # noqa: ARG002 - Spark's
        first, end = (self._options[name] for name in ("startingoffsets", "endingoffsets"))
        firsts = None if first == "earliest" else json.loads(first)
        ends = None if end == "latest" else json.loads(end)
        for line in Path(self._options["log"]).read_text().splitlines():
            value, topic, number, offset = json.loads(line)
            comes = firsts is None or offset >= firsts[topic][str(number)]
            if comes and (ends is None or offset < ends[topic][str(number)]):
                yield value, topic, number, offset


def test_messages_are_read_between_offsets_that_the_commits_keep(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "log"

    def send(*messages: tuple[str, int, int]) -> None:
        with log.open("a") as file:
            file.writelines(json.dumps([value, "people", number, offset]) + "\n" for value, number, offset in messages)

    spark.dataSource.register(Messages)
    monkeypatch.setitem(positions._TRACKED, Messages.name(), (Increment.OFFSETS,))
    text = f"""
pipeline: people
sources:
  messages: {{spark: messages_of_tests, options: {{subscribe: people, log: "{log}"}}, increment: offsets}}
views:
  people: select value as name from messages
nodes:
  Person: {{view: people}}
publish: {{mode: append}}
"""
    people = read_pipeline(text, folder=tmp_path)
    graph = og.init(tmp_path / "graph", "node Person { name: String @key }")
    send(("Ada", 0, 0), ("Bob", 1, 5), ("Cyd", 0, 1))
    assert people.validate(graph) == ()
    assert people.run(graph).sources == {"messages": 3}
    assert people.status(graph).after == {"messages": '{"people":{"0":2,"1":6}}'}
    assert people.run(graph).commit is None
    send(("Eve", 1, 6))
    assert [(each.is_new, each.rows) for each in people.plan(graph).sources] == [(True, 1)]
    assert people.run(graph).sources == {"messages": 1}
    assert people.status(graph).after == {"messages": '{"people":{"0":2,"1":7}}'}
    assert len(content(graph)) == 4

    wrong = read_pipeline(text.replace("subscribe: people", "startingOffsets: latest"), folder=tmp_path)
    assert [(each.code.value, each.line) for each in wrong.validate(graph)] == [("D102", 4)]
