"""The example of the documentation: a graph of Debian's packages from lists as apt keeps them, by a file alone."""

import shutil
from pathlib import Path

import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.pipelines import Pipeline, read_pipeline

EXAMPLE = Path(__file__).parents[2] / "docs/examples/debian"
ALPHA = """Package: alpha
Version: 1.0-1
Installed-Size: 120
Maintainer: Ann Author <ann@example.org>
Architecture: amd64
Depends: beta (>= 2.0), gamma | beta:any, libc
Pre-Depends: gamma (>= 1)
Description: The first
 with a longer text
Section: games
"""
BETA = """Package: beta
Version: 2.0
Maintainer: Ann Author <ann@example.org>
Depends: gamma
Homepage: https://example.org/beta
Description: The second
"""
GAMMA = """Package: gamma
Version: 3:1.1
Maintainer: Bob <bob@example.org>
Priority: optional
Description: The third, of Zoë
"""
OLD_GAMMA = GAMMA.replace("3:1.1", "1.0")
LIBC = """Package: libc
Version: 2.36
Maintainer: Bob <bob@example.org>
Depends: virtual-thing
Description: A library
"""


def write_list(folder: Path, name: str, *paragraphs: str) -> None:
    """A list of packages; if its name says so, packed as apt packs it."""
    (folder / "lists").mkdir(exist_ok=True)
    path = folder / "lists" / name
    with pa.output_stream(path, compression="lz4" if path.suffix == ".lz4" else None) as stream:
        stream.write("\n".join(paragraphs).encode())


def debian(folder: Path) -> tuple[og.Graph, Pipeline]:
    for name in ("debian.pg", "debian.yaml"):
        shutil.copy(EXAMPLE / name, folder)
    return og.init(folder / "debian.omni", (folder / "debian.pg").read_text()), read_pipeline(folder / "debian.yaml")


@pytest.mark.parametrize("name", ["main_Packages", "main_Packages.lz4"])
def test_lists_of_packages_become_a_graph_and_changes_of_them_change_exactly_that(tmp_path: Path, name: str) -> None:
    write_list(tmp_path, name, ALPHA, BETA, GAMMA, LIBC)
    write_list(tmp_path, f"security_{name}", OLD_GAMMA)
    graph, pipeline = debian(tmp_path)
    assert pipeline.validate(graph) == ()
    done = pipeline.run(graph)
    assert done.sources == {"paragraphs": 5}
    assert (done.nodes, done.edges) == ({"Package": 4, "Maintainer": 2}, {"MaintainedBy": 4, "DependsOn": 5})
    assert done.rejected_rows == 1  # no package is called virtual-thing
    exported = [line for line in graph.export(ordered=True) if '"edge": "DependsOn"' in line]  # type: ignore[union-attr]
    assert len(exported) == 5
    alpha = graph.entity("Package", "alpha")
    assert alpha is not None
    assert (alpha["version"], alpha["installed_kib"], alpha["section"]) == ("1.0-1", 120, "games")
    assert graph.entity("Package", "gamma")["version"] == "3:1.1"  # type: ignore[index]
    beta = graph.entity("DependsOn", '["alpha","beta","depends"]')
    assert beta is not None
    assert (beta["condition"], beta["alternative"]) == (">= 2.0", 0)

    assert pipeline.run(graph).commit is None

    write_list(tmp_path, name, ALPHA.replace("beta (>= 2.0), ", ""), BETA.replace("2.0", "2.1"), GAMMA)
    done = pipeline.run(graph)
    assert done.commit is not None
    changed = sorted(
        (each.type, each.kind.value, each.id) for each in graph.commits.changes(done.commit.graph_commit_id)
    )
    assert changed == [
        ("DependsOn", "delete", '["alpha","libc","depends"]'),
        ("DependsOn", "update", '["alpha","beta","depends"]'),  # now only as an alternative
        ("MaintainedBy", "delete", "libc"),
        ("Package", "delete", "libc"),
        ("Package", "update", "beta"),
    ]
