"""Spellings that some disk takes for one name."""

import pytest

from penstock.resources.project.folding import folded


@pytest.mark.parametrize(
    "path",
    [
        "agents/x.tool.yaml",
        "Agents/X.Tool.YAML",
        "AGENTS/x.tool.yaml.",
        "agents. /x.tool.yaml ..",
        "agents/x.tool.yaml:stream",
        "agents/x.tool.yaml::$DATA",
        "agents/x\u200d.tool.yaml",
        "\ufeffagents/x.tool.yaml",
        "agent\u017f/x.tool.yaml",
        "\uff41gents/x.tool.yaml",
    ],
)
def test_other_spellings_are_one_name(path: str) -> None:
    assert folded(path) == "agents/x.tool.yaml"


@pytest.mark.parametrize(
    ("one", "other"), [("caf\u00e9", "cafe\u0301"), ("STRASSE", "straße"), ("\u212a", "k")]
)
def test_forms_of_one_text_are_one_name(one: str, other: str) -> None:
    assert folded(one) == folded(other)


@pytest.mark.parametrize("path", ["", ".", "a/..", "../x", ".env", ".pi/flows", "a.b/c.d"])
def test_what_is_no_odd_spelling_stays(path: str) -> None:
    assert folded(path) == path


def test_names_of_other_bytes_are_folded_too() -> None:
    assert folded("X\udcff.TOOL.yaml") == "x\udcff.tool.yaml"
