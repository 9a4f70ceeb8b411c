"""Files are followed, each once, as far as there is room."""

import pytest

from penstock.sandbox.reading.folder import ReadFailure
from penstock.sandbox.reading.graph import MOST_BYTES, MOST_MODULES, read_graph
from penstock.sandbox.reading.scan import Scanner
from tests.sandbox.files import InMemory


def test_every_file_is_read_once_the_nearest_first(scanner: Scanner) -> None:
    files = InMemory(
        {
            "main.mts": "import './lib/a.mts'; import './b.mts'; import './main.mts'",
            "lib/a.mts": "import '../b.mts'; import './c.mts'",
            "b.mts": "import './lib/c.mts'",
            "lib/c.mts": "import '../main.mts'",
        }
    )
    graph = read_graph("main.mts", files.read, scanner)
    assert files.readings == ["main.mts", "lib/a.mts", "b.mts", "lib/c.mts"]
    assert graph.links["lib/a.mts"] == {"../b.mts": "b.mts", "./c.mts": "lib/c.mts"}
    assert not graph.is_too_large


def test_a_file_that_changes_while_it_is_read_is_one_of_the_two(scanner: Scanner) -> None:
    files = InMemory(
        {
            "main.mts": "import './a.mts'; import './b.mts'",
            "a.mts": "export * from './b.mts'",
            "b.mts": ["export const one = 1", "export const two = 2"],
        }
    )
    graph = read_graph("main.mts", files.read, scanner)
    assert graph.exported("b.mts") == graph.exported("a.mts") == frozenset({"one"})


@pytest.mark.parametrize("count", [MOST_MODULES, MOST_MODULES + 1, 300])
def test_a_script_has_at_most_256_modules(scanner: Scanner, count: int) -> None:
    """M8."""
    files = {f"{n}.mts": f"import './{n + 1}.mts'" for n in range(count - 1)}
    graph = read_graph("0.mts", InMemory(files | {f"{count - 1}.mts": ""}).read, scanner)
    assert graph.is_too_large is (count > MOST_MODULES)
    assert len(graph.scans) <= MOST_MODULES


@pytest.mark.parametrize("extra", [0, 1])
def test_a_script_has_at_most_four_megabytes(scanner: Scanner, extra: int) -> None:
    first = "import './b.mts'\n"
    files = InMemory({"a.mts": first, "b.mts": "/" * (MOST_BYTES - len(first) + extra)})
    graph = read_graph("a.mts", files.read, scanner)
    assert graph.is_too_large is bool(extra)
    assert graph.bytes == MOST_BYTES + extra


@pytest.mark.parametrize(
    ("name", "exported"),
    [
        ("own.mts", {"a", "default"}),
        ("star.mts", {"a", "b"}),
        ("circle.mts", {"a", "b", "c"}),
        ("round.mts", {"a", "b", "c"}),
        ("runtime.mts", None),
        ("data.json", {"default"}),
        ("broken.mts", None),
        ("over_broken.mts", None),
        ("over_missing.mts", None),
        ("over_refused.mts", None),
    ],
)
def test_exports_go_through_stars(scanner: Scanner, name: str, exported: set[str] | None) -> None:
    files = InMemory(
        {
            "own.mts": "export const a = 1; export default 2",
            "star.mts": "export * from './own.mts'; export const b = 1",
            "circle.mts": "export * from './round.mts'; export const c = 1",
            "round.mts": "export * from './circle.mts'; export * from './star.mts'",
            "runtime.mts": "export * from 'flo:runtime'",
            "data.json": "{}",
            "broken.mts": "export const",
            "over_broken.mts": "export * from './broken.mts'",
            "over_missing.mts": "export * from './missing.mts'",
            "over_refused.mts": "export * from 'package'",
        }
    )
    graph = read_graph(name, files.read, scanner)
    found = graph.exported(name)
    if name == "runtime.mts":
        assert found is not None
        assert "callTool" in found
    else:
        assert found == exported


@pytest.mark.slow("thousands of stars are followed")
def test_everything_exported_from_everywhere_ends(scanner: Scanner) -> None:
    count = 60
    stars = "".join(f"export * from './{n}.mts';" for n in range(count))
    files = InMemory({f"{n}.mts": f"{stars}export const a{n} = 1" for n in range(count)})
    graph = read_graph("0.mts", files.read, scanner)
    assert all(len(graph.exported(name) or ()) == count for name in graph.scans)


def test_what_is_not_there_is_told_apart(scanner: Scanner) -> None:
    graph = read_graph("a.mts", InMemory({"a.mts": "import './b.mts'"}).read, scanner)
    assert graph.absent == {"b.mts": ReadFailure.MISSING}
