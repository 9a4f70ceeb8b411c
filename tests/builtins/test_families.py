"""Which built-in tools chats are offered: the core that can be used, and families by name."""

from typing import Any

import pytest

from penstock.builtins import TOOLS
from penstock.builtins.families import (
    FAMILIES,
    ProjectFeatures,
    core,
    family_of,
    offer_builtins,
    why_partial,
    why_useless,
)
from penstock.tools.policy import AUTHORING

EVERYTHING = ProjectFeatures(
    has_skills=True,
    has_handbooks=True,
    has_agents=True,
    has_flows=True,
    has_shell=True,
    has_channels=True,
    has_workbooks=True,
)
ALIAS = "glob"
ALWAYS = {"ask_user", "read_tool_result_artifact"}
OF_SKILLS = {"list_available_skills", "activate_skill", "read_skill_resource"}


def offered(*families: str, **there: Any) -> set[str]:
    """Return the ids of what is offered."""
    tools = offer_builtins(TOOLS, families, ProjectFeatures(**there))
    assert [each.spec.tool_id for each in tools] == [each.spec.tool_id for each in TOOLS]
    return {each.spec.tool_id for each in tools if each.spec.is_offered}


@pytest.mark.parametrize(
    ("there", "more"),
    [
        ({}, set()),
        ({"has_skills": True}, OF_SKILLS),
        ({"has_handbooks": True}, {"skill_read"}),
        ({"has_agents": True}, {"subagent"}),
        ({"has_flows": True}, {"execute_workflow"}),
        ({"has_shell": True, "has_channels": True}, set()),
    ],
)
def test_the_core_contains_only_usable_tools(there: dict[str, bool], more: set[str]) -> None:
    """`chat.md` §13: what cannot be used is not offered."""
    assert offered(**there) == core(ProjectFeatures(**there)) == ALWAYS | more


@pytest.mark.parametrize("family", FAMILIES)
def test_a_named_family_is_offered(family: str) -> None:
    there = dict.fromkeys(ProjectFeatures.__struct_fields__, True)
    assert offered(family, **there) == core(EVERYTHING) | set(FAMILIES[family])


@pytest.mark.parametrize(
    ("family", "missing", "why"),
    [
        ("shell", "has_shell", "shell commands are off; set shell = true under [flows]"),
        ("notify", "has_channels", "there is no channel; add a [notifications.NAME] section"),
    ],
)
def test_a_family_that_lacks_a_feature_offers_nothing_and_reports_why(
    family: str, missing: str, why: str
) -> None:
    there = {name: name != missing for name in ProjectFeatures.__struct_fields__}
    assert offered(family, **there) == core(EVERYTHING)
    assert why_useless(family, ProjectFeatures(**there)) == why
    assert why_useless(family, EVERYTHING) == ""


def test_without_the_extra_sheets_csv_tools_are_offered_and_excel_tools_are_not() -> None:
    there = {name: name != "has_workbooks" for name in ProjectFeatures.__struct_fields__}
    tables = {"csv_inspect", "csv_read", "csv_create", "csv_edit_cells"}
    assert offered("sheets", **there) == core(EVERYTHING) | tables
    assert why_useless("sheets", ProjectFeatures(**there)) == ""
    assert why_partial("sheets", ProjectFeatures(**there)).endswith(
        "pip install 'penstock[sheets]'"
    )
    assert [name for name in FAMILIES if why_partial(name, EVERYTHING)] == []


def test_a_family_that_does_not_exist_offers_nothing() -> None:
    assert offered("nothing") == ALWAYS


def test_every_built_in_tool_is_in_the_core_or_in_one_family() -> None:
    """A new tool needs its family here, or no chat is offered it."""
    in_families = [each for ids in FAMILIES.values() for each in ids]
    assert len(in_families) == len(set(in_families))
    there = {each.spec.tool_id for each in TOOLS}
    assert {*in_families, *core(EVERYTHING), *AUTHORING, ALIAS} == there


@pytest.mark.parametrize(
    ("tool_id", "family"), [("bash", "shell"), ("zip", "archive"), ("ask_user", ""), ("no", "")]
)
def test_a_tool_knows_its_family(tool_id: str, family: str) -> None:
    assert family_of(tool_id) == family


def test_the_tools_themselves_stay_as_they_were() -> None:
    before = [each.spec.is_offered for each in TOOLS]
    offered(*FAMILIES)
    assert [each.spec.is_offered for each in TOOLS] == before
