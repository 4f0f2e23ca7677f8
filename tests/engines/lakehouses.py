"""Tables of Delta Lake and Iceberg as sources of a pipeline, in a process whose Spark has the jars of the format."""

import json
import sys
from pathlib import Path
from typing import Any

import omnigraph as og
from omnigraph.pipelines import Pipeline, read_pipeline
from omnigraph.spark.sessions import session, stop

SCHEMA = "node Account { number: I64 @key, owner: String }"
SETTINGS = {
    "delta": {
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    },
    "iceberg": {
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.lake.type": "hadoop",
    },
}
VIEWS = {
    "delta": """
    select number, owner, _commit_version as place, _change_type = 'delete' as gone
    from changes where _change_type <> 'update_preimage'
    """,
    "iceberg": """
    select number, owner, _change_ordinal * 2 + if(_change_type = 'DELETE', 0, 1) as place,
           _change_type = 'DELETE' as gone
    from changes
    """,
}
"""How the change feeds of the formats say what deletes, and what came first."""
CREATE = {
    "delta": "CREATE TABLE {} (number bigint, owner string) USING delta "
    "TBLPROPERTIES (delta.enableChangeDataFeed = true)",
    "iceberg": "CREATE TABLE {} (number bigint, owner string) USING iceberg",
}


def pipelines(format: str, place: dict[str, str]) -> tuple[Pipeline, Pipeline]:
    """One that reads the change feed of a table, and one that reads its newest version."""
    changes = {
        "pipeline": "changes",
        "sources": {"changes": {"spark": format, "options": place, "increment": "changes"}},
        "views": {"ordered": VIEWS[format]},
        "nodes": {
            "Account": {
                "view": "ordered",
                "properties": {"number": "number", "owner": "owner"},
                "sequence": "place",
                "delete": "gone",
            }
        },
    }
    whole = {
        "pipeline": "whole",
        "sources": {"accounts": {"spark": format, "options": place, "increment": "version"}},
        "nodes": {"Account": {"view": "accounts"}},
        "publish": {"mode": "overwrite"},
    }
    return read_pipeline(changes), read_pipeline(whole)


def main(format: str, jars: str, folder: str) -> None:
    """What a child does: changes of a table, and what runs make of them, as JSON."""
    found = ",".join(str(path) for path in sorted(Path(jars).glob("*.jar")))
    warehouse = {"spark.sql.catalog.lake.warehouse": f"{folder}/lake"} if format == "iceberg" else {}
    spark = session("local[2]", {"spark.jars": found, **SETTINGS[format], **warehouse})
    path = f"{folder}/accounts"
    table, place = (f"delta.`{path}`", {"path": path}) if format == "delta" else ("lake.db.accounts", {})
    place = place or {"table": table}
    outcome: list[Any] = []
    graphs = [og.init(f"{folder}/{name}.omni", SCHEMA, durability="fast") for name in ("changes", "whole")]

    def run_all() -> None:
        for pipeline, graph in zip(pipelines(format, place), graphs, strict=True):
            findings = [str(each) for each in pipeline.validate(graph)]
            done = pipeline.run(graph)
            again = pipeline.run(graph)
            rows = sorted(tuple(json.loads(line)["data"].values()) for line in graph.export())  # type: ignore[union-attr]
            outcome.append([findings, done.commit is not None, again.commit is None, rows])

    spark.sql(CREATE[format].format(table))
    spark.sql(f"INSERT INTO {table} VALUES (1, 'Ada'), (2, 'Bob')")
    run_all()
    spark.sql(f"UPDATE {table} SET owner = 'Rob' WHERE number = 2")
    spark.sql(f"INSERT INTO {table} VALUES (3, 'Eve')")
    spark.sql(f"DELETE FROM {table} WHERE number = 1")
    run_all()
    stop()
    sys.stdout.write(json.dumps(outcome))
