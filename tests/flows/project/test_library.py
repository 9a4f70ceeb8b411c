"""Libraries of flows: those on disk and in memory follow one contract. What runs store."""

from pathlib import Path

import pytest

from penstock.core.errors import NotFound
from penstock.core.events.flow_events import FlowStarted
from penstock.flows.checks.context import CheckContext
from penstock.flows.project.flows import ProjectFlows
from penstock.flows.project.library import (
    FlowLibrary,
    FlowSource,
    NoFlows,
    check_size,
    is_glob,
    matches,
    referred_flows,
    referred_texts,
    source_of,
)
from penstock.testing.flows import MemoryFlows
from tests.flows.texts import TOP

TEXT = "name: n\ndescription: d\nsteps:\n  - {id: a, agent: x}\n"
FILES = {
    "flows/one.yaml": TEXT,
    "flows/dom/apply.yaml": TEXT,
    "flows/dom/parts/a.yaml": TEXT,
    "flows/dom/parts/b.yaml": TEXT,
    "flows/dom/parts/deep/c.yaml": TEXT,
}

APPLY = FlowSource(path="flows/dom/apply.yaml", texts={})


@pytest.fixture(params=["disk", "memory"])
def library(request: pytest.FixtureRequest, tmp_path: Path) -> FlowLibrary:
    if request.param == "memory":
        return MemoryFlows(FILES)
    for name, text in FILES.items():
        path = tmp_path / "project" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (tmp_path / "outside.yaml").write_text(TEXT)
    return ProjectFlows(tmp_path / "project", CheckContext)


def test_a_flow_is_found_by_its_command(library: FlowLibrary) -> None:
    source = library.find("dom:apply")
    assert (source.path, source.text) == ("flows/dom/apply.yaml", TEXT)


def test_an_unknown_command_suggests_the_nearest(library: FlowLibrary) -> None:
    with pytest.raises(NotFound, match=r'no flow "/dom:aply"\. Did you mean .dom:apply.'):
        library.find("dom:aply")


@pytest.mark.parametrize(
    ("path", "files"),
    [
        ("apply.yaml", ["flows/dom/apply.yaml"]),
        ("./parts/a.yaml", ["flows/dom/parts/a.yaml"]),
        ("../one.yaml", ["flows/one.yaml"]),
        ("flows/one.yaml", ["flows/one.yaml"]),
        ("parts/*.yaml", ["flows/dom/parts/a.yaml", "flows/dom/parts/b.yaml"]),
        (
            "parts/**.yaml",
            ["flows/dom/parts/a.yaml", "flows/dom/parts/b.yaml", "flows/dom/parts/deep/c.yaml"],
        ),
        ("parts/?.yaml", ["flows/dom/parts/a.yaml", "flows/dom/parts/b.yaml"]),
        ("gone.yaml", []),
        ("parts/x*.yaml", []),
    ],
)
def test_a_path_is_resolved_in_the_flows_folder_and_then_in_the_project(
    library: FlowLibrary, path: str, files: list[str]
) -> None:
    """Relative to the directory of this flow's file; if nothing matches, to the project root."""
    source = library.refer(APPLY, path)
    assert source is not None
    assert [each.path for each in source] == files


@pytest.mark.parametrize("path", ["/etc/hostname", "../../../outside.yaml", "..\\x", "a\0b"])
def test_a_path_that_leaves_the_project_is_refused(library: FlowLibrary, path: str) -> None:
    assert library.refer(APPLY, path) is None


def test_a_runtime_without_flows_has_none() -> None:
    with pytest.raises(NotFound, match="no flow"):
        NoFlows().find("x")
    assert NoFlows().refer(APPLY, "b") == ()


@pytest.mark.parametrize(
    ("pattern", "fits"),
    [
        ("a*.yaml", ["a.yaml", "ab.yaml"]),
        ("**/b.yaml", ["b.yaml", "x/b.yaml"]),
        ("a.yaml", ["a.yaml"]),
        ("**/" * 12 + "x", []),
    ],
)
def test_a_glob_stays_in_its_folder_unless_it_has_two_stars(pattern: str, fits: list[str]) -> None:
    names = ["a.yaml", "ab.yaml", "b.yaml", "x/a.yaml", "x/b.yaml", "ayaml"]
    assert matches(pattern, names) == fits
    assert is_glob(pattern) is ("*" in pattern)


def test_a_glob_of_many_stars_takes_linear_time() -> None:
    """Compared name by name: twelve `**/` on a deep path are as quick as one."""
    deep = "/".join("abcdefghijklmnopqrstuvwxyz") + "/x.yaml"
    assert matches("**/" * 12 + "*.yaml", [deep] * 200) == [deep] * 200


def test_the_name_of_a_file_in_a_package_includes_its_folder() -> None:
    source = FlowSource(root="/srv/flows", path="a.yaml", texts={"a.yaml": TEXT})
    assert (source.name, source.text) == ("/srv/flows/a.yaml", TEXT)
    assert APPLY.name == "flows/dom/apply.yaml"


def test_the_source_of_a_started_flow_is_the_stored_one() -> None:
    started = FlowStarted(root="/srv", file="a.yaml", texts={"a.yaml": TEXT}, task="")
    kept = source_of(started)
    assert (kept.root, kept.path, kept.text) == ("/srv", "a.yaml", TEXT)


LEAF = TOP + "- {id: a, agent: scout}\n"


def leading(*paths: str) -> str:
    """Return a flow that refers to others."""
    steps = [f'- {{id: r{number}, path: "{path}"}}\n' for number, path in enumerate(paths)]
    return TOP + "".join(steps)


TEXTS = {
    "flows/main.yaml": leading("dom/sub.yaml", "${{task}}.yaml", "dom/*.yaml", "../../x.yaml"),
    "flows/dom/sub.yaml": leading("leaf.yaml", "flows/main.yaml", "gone.yaml"),
    "flows/dom/leaf.yaml": LEAF,
    "flows/dom/other.yaml": LEAF,
    "flows/dom/handlers/sub/c.ts": "export default 1",
}
MAIN = MemoryFlows(TEXTS).find("main")


def test_a_flow_is_stored_with_every_flow_that_literal_paths_name() -> None:
    """`flow_started` holds the texts of sub-flows with literal paths; a cycle ends."""
    names = ["flows/main.yaml", "flows/dom/sub.yaml", "flows/dom/leaf.yaml"]
    assert list(referred_texts("flows/main.yaml", TEXTS.get)) == names
    assert referred_texts("gone.yaml", TEXTS.get) == {}


def test_an_edit_during_a_run_does_not_change_it() -> None:
    """A run keeps these texts to its end, whatever is written meanwhile."""
    now = MemoryFlows({**TEXTS, "flows/dom/sub.yaml": LEAF})
    for written, path in (("dom/sub.yaml", "dom/sub.yaml"), ("${{task}}", "dom/sub.yaml")):
        (nested,) = referred_flows(now, MAIN, written, path) or ()
        assert (nested.path, nested.text) == ("flows/dom/sub.yaml", TEXTS["flows/dom/sub.yaml"])


def test_a_nested_flow_is_stored_with_the_flows_that_its_paths_name() -> None:
    (nested,) = referred_flows(MemoryFlows({}), MAIN, "dom/sub.yaml", "dom/sub.yaml") or ()
    assert set(nested.texts) == set(TEXTS) - {"flows/dom/other.yaml"}
    (leaf,) = referred_flows(MemoryFlows({}), nested, "leaf.yaml", "leaf.yaml") or ()
    assert set(leaf.texts) == {"flows/dom/leaf.yaml", "flows/dom/handlers/sub/c.ts"}


def test_a_literal_path_leads_to_the_stored_flow() -> None:
    """A file that appears next to the flow does not replace the project's."""
    source = FlowSource(path="flows/a.yaml", texts={"flows/a.yaml": "", "flows/b.yaml": LEAF})
    now = MemoryFlows({"flows/flows/b.yaml": leading("x.yaml")})
    (nested,) = referred_flows(now, source, "flows/b.yaml", "flows/b.yaml") or ()
    assert nested.path == "flows/b.yaml"
    (nested,) = referred_flows(now, source, "${{task}}", "flows/b.yaml") or ()
    assert nested.path == "flows/flows/b.yaml"


def test_a_path_known_only_in_the_run_is_read_then() -> None:
    sources = referred_flows(MemoryFlows(TEXTS), MAIN, "dom/*.yaml", "dom/*.yaml") or ()
    assert [each.path.rpartition("/")[2] for each in sources] == [
        "leaf.yaml",
        "other.yaml",
        "sub.yaml",
    ]
    assert referred_flows(MemoryFlows(TEXTS), MAIN, "../../x.yaml", "../../x.yaml") is None


def test_a_run_that_would_store_too_much_is_refused() -> None:
    names = [f"{number}.yaml" for number in range(40)]
    texts = {"main.yaml": leading(*names)} | dict.fromkeys(names, "x" * 1_000_000)
    referred = referred_texts("main.yaml", texts.get)
    assert len(referred) < len(texts) / 2
    (error,) = check_size(referred, "main.yaml")
    assert error.code == "flows-too-large"
    assert check_size({"0.yaml": LEAF}, "0.yaml") == ()
