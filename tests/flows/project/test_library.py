"""Libraries of flows: the one on disk and the one in memory keep the same contract."""

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
    is_glob,
    matches,
    source_of,
)
from penstock.testing.flows import MemoryFlows

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
    found = library.find("dom:apply")
    assert (found.path, found.text) == ("flows/dom/apply.yaml", TEXT)


def test_an_unknown_command_is_answered_with_the_nearest(library: FlowLibrary) -> None:
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
def test_a_path_is_looked_for_beside_the_flow_and_then_in_the_project(
    library: FlowLibrary, path: str, files: list[str]
) -> None:
    """Relative to the directory of this flow's file; if nothing matches, to the project root."""
    found = library.refer(APPLY, path)
    assert found is not None
    assert [each.path for each in found] == files


@pytest.mark.parametrize("path", ["/etc/hostname", "../../../outside.yaml", "..\\x", "a\0b"])
def test_a_path_that_leaves_the_project_is_no_path(library: FlowLibrary, path: str) -> None:
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


def test_a_glob_of_many_stars_takes_no_time() -> None:
    """Compared name by name: twelve `**/` on a deep path are as quick as one."""
    deep = "/".join("abcdefghijklmnopqrstuvwxyz") + "/x.yaml"
    assert matches("**/" * 12 + "*.yaml", [deep] * 200) == [deep] * 200


def test_people_are_told_of_the_file_of_a_package_with_its_folder() -> None:
    source = FlowSource(root="/srv/flows", path="a.yaml", texts={"a.yaml": TEXT})
    assert (source.name, source.text) == ("/srv/flows/a.yaml", TEXT)
    assert APPLY.name == "flows/dom/apply.yaml"


def test_a_flow_is_told_as_its_run_keeps_it() -> None:
    started = FlowStarted(root="/srv", file="a.yaml", texts={"a.yaml": TEXT}, task="")
    kept = source_of(started)
    assert (kept.root, kept.path, kept.text) == ("/srv", "a.yaml", TEXT)
