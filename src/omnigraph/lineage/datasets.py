"""What a run reads and writes, under the names that OpenLineage has for it.

A dataset has a namespace, which is the store that it is in, and a name in it. Other tools give the same names to the
same files and tables, and so their runs and ours meet in one graph of lineage. Names never have credentials.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
from glob import has_magic
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from omnigraph.lineage.descriptions import Dataset, DatasetColumn

LOCAL = "file"
_SPARK = "spark"
_MOST_FILES = 100
_ALL_FILES = re.compile(r"\*\*?(\.[^*?\[\]]+)?")


def dataset_at(uri: str | Path) -> Dataset:
    """Files, by a path, a folder or a pattern. A pattern for all files, such as `*.csv`, stands for their folder."""
    text = _folder_of_pattern(str(uri))
    if "://" not in text:
        return Dataset(namespace=LOCAL, name=str(Path(text).absolute()))
    parts = urlsplit(text)
    if parts.scheme == LOCAL:
        return Dataset(namespace=LOCAL, name=parts.path)
    scheme = "s3" if parts.scheme == "s3a" else parts.scheme  # the connector does not tell one bucket from another
    return Dataset(namespace=f"{scheme}://{_without_user(parts.netloc)}", name=parts.path.strip("/") or "/")


def _folder_of_pattern(text: str) -> str:
    """The folder that all files of a pattern are in; the pattern itself if it takes some files of a folder only."""
    parts = text.split("/")
    if not _ALL_FILES.fullmatch(parts[-1]):
        return text
    first = next(index for index, part in enumerate(parts) if has_magic(part))
    return "/".join(parts[:first]) or ("/" if text.startswith("/") else ".")


def _without_user(authority: str) -> str:
    return authority.rpartition("@")[2] if ":" in authority.rpartition("@")[0] else authority


def dataset_in_spark(format_: str, options: Mapping[str, str]) -> Dataset:
    """What a format of Spark reads with these options; the name of the format if they do not say it."""
    given = {name.lower(): value for name, value in options.items()}
    if (url := given.get("url")) is not None:
        parts = urlsplit(url.removeprefix("jdbc:"))
        database = parts.path.strip("/")
        table = given.get("dbtable", "")
        named = [each for each in (database, "" if " " in table.strip() else table) if each]
        return Dataset(namespace=f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}", name=".".join(named) or format_)
    if (topic := given.get("subscribe")) is not None:
        servers = given.get("kafka.bootstrap.servers", "").partition(",")[0]
        return Dataset(namespace=f"kafka://{servers}", name=topic)
    path = given.get("path")
    if path is not None and ("/" in path or format_ != "iceberg"):
        return dataset_at(path)
    return Dataset(namespace=_SPARK, name=path or format_)


def datasets_of_input(data: Any) -> list[Dataset]:
    """The files that a load is given by their paths. Rows in memory and uploads have no names that others know.

    Many files are named by their folders.
    """
    found = _unique(_named_datasets(data))
    if len(found) > _MOST_FILES:
        found = _unique(replace(each, name=each.name.rpartition("/")[0] or "/") for each in found)
    return found[:_MOST_FILES]


def _unique(datasets: Iterable[Dataset]) -> list[Dataset]:
    return list({(each.namespace, each.name): each for each in datasets}.values())


def _named_datasets(data: Any) -> Iterator[Dataset]:
    for each in data if isinstance(data, list | tuple) else [data]:
        for rows in each.values() if isinstance(each, Mapping) else [each]:
            for file in rows if isinstance(rows, list | tuple) else [rows]:
                if isinstance(file, str | Path):
                    yield dataset_at(file)


def with_statistics(
    datasets: Iterable[Dataset], files: Iterable[tuple[str, int]], rows: int | None
) -> Iterator[Dataset]:
    """Datasets of files with the number and size of the files in them; `rows` is known if there is one dataset."""
    known = [(dataset_at(uri), size) for uri, size in files]
    unique = _unique(datasets)
    for each in unique:
        sizes = [size for file, size in known if _contains(each, file)]
        counted = replace(each, rows=rows if len(unique) == 1 else None)
        yield replace(counted, bytes=sum(sizes), files=len(sizes)) if sizes else counted


def _contains(dataset: Dataset, file: Dataset) -> bool:
    if file.namespace != dataset.namespace:
        return False
    is_below = dataset.name == "/" or f"{file.name}/".startswith(f"{dataset.name.rstrip('/')}/")
    return is_below or (has_magic(dataset.name) and fnmatchcase(file.name, dataset.name))


def name_type(graph: str, type_: str) -> Dataset:
    """A node or edge type of a graph, given by the address of the graph."""
    at = dataset_at(graph)
    return replace(at, name=f"{at.name.rstrip('/')}/{type_}")


def written_types(
    graph: str, counts: Mapping[str, int], catalog: Any, *, branch: str, commit: str | None
) -> Iterator[Dataset]:
    """The types that a run wrote to, with their columns and the number of records."""
    for type_, count in counts.items():
        entity = catalog.existing_entity(type_)
        system = [DatasetColumn(name, "String") for name in entity.system_columns]
        declared = [DatasetColumn(each.name, str(each.type)) for each in entity.properties.values()]
        yield replace(name_type(graph, type_), columns=(*system, *declared), rows=count, version=commit, branch=branch)
