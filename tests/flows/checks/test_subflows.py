"""Targets of flow-ref paths."""

import pytest

from penstock.flows.checks.subflows import RefTarget, follow, is_literal, resolve
from tests.flows.checks.around import SEED, beside
from tests.flows.texts import TOP, read


@pytest.mark.parametrize(
    ("path", "folder", "wanted"),
    [
        ("x.yaml", "flows", ["flows/x.yaml", "x.yaml"]),
        ("x.yaml", "", ["x.yaml"]),
        ("../x.yaml", "flows/a", ["flows/x.yaml"]),
        ("a/../../x.yaml", "flows", ["x.yaml"]),
        ("../../x.yaml", "flows", []),
        ("../x.yaml", "", []),
        ("/x.yaml", "flows", []),
        ("..x/y.yaml", "", ["..x/y.yaml"]),
    ],
)
def test_a_path_is_looked_for_beside_the_flow_and_then_in_the_project(
    path: str, folder: str, wanted: list[str]
) -> None:
    """Relative to the directory of this flow's file; relative to the project root."""
    assert resolve(path, folder) == wanted


@pytest.mark.parametrize(
    ("path", "wanted"), [("a.yaml", True), ("*.yaml", False), ("a?", False), ("${{task}}", False)]
)
def test_some_paths_only_a_run_can_follow(path: str, wanted: bool) -> None:
    assert is_literal(path) is wanted


def test_a_reference_is_followed_to_the_ids_that_it_brings() -> None:
    around = beside(SEED, {"flows/a.yaml": f"{TOP}- {{id: x, agent: b}}\n- {{agent: c}}\n"})
    steps = "- {id: r, path: a.yaml}\n- {id: s, path: '*'}\n- {id: t, path: b.yaml}\n"
    found = follow(read(steps).steps, around)
    assert [(each.leads, each.path, each.brings) for each in found.values()] == [
        (RefTarget.TO_A_FLOW, "flows/a.yaml", ("x",)),
        (RefTarget.OPEN, "", None),
        (RefTarget.NOWHERE, "", None),
    ]
