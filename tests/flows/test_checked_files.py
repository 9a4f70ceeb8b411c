"""Every flow of a project, read and checked."""

from pathlib import Path

from penstock.flows.checked_files import check_files
from penstock.flows.files import find_flows
from tests.flows.checks.around import SEED
from tests.flows.texts import TOP, told


def test_a_flow_with_an_error_is_listed_and_the_others_are_untouched(tmp_path: Path) -> None:
    """D6: A file with error diagnostics is listed as not valid and takes no part."""
    folder = tmp_path / "flows"
    folder.mkdir()
    steps = {"good": "scout", "odd": "scout, reads: x", "bad": "scuot"}
    for name, agent in steps.items():
        (folder / f"{name}.yaml").write_text(f"{TOP}- {{id: a, agent: {agent}}}\n")
    (folder / "broken.yaml").write_text("[")
    checked = check_files(find_flows(tmp_path).files, SEED)
    assert {name: each.flow is not None for name, each in checked.items()} == {
        "bad": False,
        "broken": False,
        "good": True,
        "odd": True,
    }
    assert told(checked["bad"].diagnostics) == [
        '4 error unknown-agent: unknown agent "scuot" in step "a"; did you mean "scout"?'
    ]


def test_each_flow_is_checked_beside_its_own_others(tmp_path: Path) -> None:
    project, package = tmp_path / "project", tmp_path / "package"
    for folder in (project / "flows", package):
        folder.mkdir(parents=True)
        (folder / f"{folder.name}.yaml").write_text(f"{TOP}- {{id: r, path: other.yaml}}\n")
    (package / "other.yaml").write_text(f"{TOP}- {{id: a, agent: scout}}\n")
    checked = check_files(find_flows(project, [package]).files, SEED)
    assert {name: told(each.diagnostics) for name, each in checked.items()} == {
        "flows": ['4 warning ref-missing: no flow at "other.yaml" (step "r")'],
        "package": [],
        "other": [],
    }
