"""Skills: which of them a task may select, and what the selected ones grant."""

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from penstock.core.errors import NotFound
from penstock.core.events.events import SkillsSelected
from penstock.core.ids import LogId
from penstock.core.profile import Profile
from penstock.engine.session_state import SessionState
from penstock.manifest.skill import SkillManifest
from penstock.tools.skills import NOTHING, SkillChoice, Skills, TaskSkills

ANYBODY, ANY_AGENT = Profile(), SkillChoice()


def skill(skill_id: str, **more: Any) -> SkillManifest:
    known: dict[str, Any] = {"name": skill_id, "description": "", "instruction": "", "line": 1}
    return SkillManifest(skill_id=skill_id, file="x", folder=".", **known | more)


EVERY = Skills(
    {
        each.skill_id: each
        for each in (
            skill("a", tools=("t",), requires_skills=("b", "gone")),
            skill("b", script_tools=("h",), requires_skills=("c",)),
            skill("c", tools=("u",)),
            skill("labelled", tools=("l",), requires_labels=("x", "y")),
            skill("guarded", tools=("g",), requires_permissions=("p.send",)),
            skill("on_guarded", tools=("o",), requires_skills=("guarded",)),
        )
    }
)


def task_skills(
    *selected: str, of: SkillChoice = ANY_AGENT, profile: Profile = ANYBODY, **more: Any
) -> TaskSkills:
    state = SessionState(LogId("log"))
    state.selected = selected
    return TaskSkills(EVERY, state, lambda: of, profile=profile, **more)


def test_required_skills_come_first_and_once() -> None:
    selection = EVERY.select(["a", "c"])
    assert selection.skills == ("a", "b", "c")
    assert (selection.tools, selection.script_tools) == (frozenset("tu"), frozenset("h"))


def test_an_empty_selection_is_one_shared_object() -> None:
    assert EVERY.select([]) is NOTHING
    assert task_skills().selection is NOTHING


def test_equal_skills_share_one_selection() -> None:
    assert EVERY.select(["a", "a"]) is EVERY.select(["a"])


@pytest.mark.parametrize(
    ("of", "permissions", "names"),
    [
        (SkillChoice(), [], ["a", "b", "c", "on_guarded"]),
        (SkillChoice(), ["p.send"], ["a", "b", "c", "guarded", "on_guarded"]),
        (SkillChoice(labels=frozenset("x")), [], ["a", "b", "c", "on_guarded"]),
        (SkillChoice(labels=frozenset("xyz")), [], ["a", "b", "c", "labelled", "on_guarded"]),
        (SkillChoice(only=("c", "guarded", "gone")), [], ["c"]),
        (SkillChoice(only=()), [], []),
    ],
)
def test_which_skills_are_visible(
    of: SkillChoice, permissions: list[str], names: list[str]
) -> None:
    """`requires_labels`: the agent must have all of them; `requires_permissions`: the profile."""
    profile = Profile(permissions=frozenset(permissions))
    found = task_skills(of=of, profile=profile).visible()
    assert [each.skill_id for each in found] == names


def test_a_task_has_preselected_session_and_own_skills() -> None:
    of = SkillChoice(preselected=("c",))
    assert task_skills("b", of=of, named=("a",)).selection.skills == ("c", "b", "a")


def test_the_tools_that_skills_add_are_found_once_for_the_tools_of_a_project() -> None:
    tools = {each: each.upper() for each in "gghlotuxyz"}
    added = EVERY.added_tools(tools)
    assert added == {each: each.upper() for each in "ghlotu"}
    assert EVERY.added_tools(tools) is added
    assert EVERY.added_tools({"t": "T"}) == {"t": "T"}
    skills = Skills({"a": skill("a", tools=("t",))})
    assert skills.added_tools(tools) == {"t": "T"}
    skills.renew({"b": skill("b", tools=("x",))})
    assert skills.added_tools(tools) == {"x": "X"}


def test_a_hidden_skill_cannot_be_selected_but_may_be_required() -> None:
    of = SkillChoice(only=("a",), preselected=("c",))
    assert task_skills("labelled", of=of).selection is NOTHING
    assert task_skills("a", of=of).selection.skills == ("a", "b", "c")


def test_a_required_skill_grants_nothing_to_a_profile_that_it_is_closed_to() -> None:
    assert task_skills("on_guarded").selection.tools == frozenset("o")
    sender = Profile(permissions=frozenset({"p.send"}))
    assert task_skills("on_guarded", profile=sender).selection.tools == frozenset("og")


def test_a_growing_selection_counts_at_once_and_the_earlier_one_stays_known() -> None:
    state = SessionState(LogId("log"))
    skills = TaskSkills(EVERY, state, SkillChoice, profile=ANYBODY)
    before = state.selected
    state.apply(SkillsSelected(skill_ids=("c",)), None, None, 0)
    assert skills.selection.skills == ("c",)
    assert skills.at(before) is NOTHING


def test_resources_are_listed_once_and_built_in_skills_have_none(tmp_path: Path) -> None:
    (tmp_path / "notes.md").write_text("Read me.")
    own = skill("own")
    skills = Skills({"own": own, "built_in": replace(own, skill_id="built_in", file="")}, tmp_path)
    (found,) = skills.resources(own)
    assert skills.place(own, found).read_text() == "Read me."
    (tmp_path / "late.md").touch()
    assert skills.resources(own) == (found,)
    assert skills.resources(replace(own, skill_id="built_in", file="")) == ()


def test_an_unknown_skill_is_answered_with_the_nearest() -> None:
    with pytest.raises(NotFound, match=r"There is no skill 'guardet'\. .*'guarded'"):
        EVERY.get("guardet")
