"""Which tools a model is offered: switches, lists, denials, permissions."""

from typing import Any

import pytest

from penstock.agents.agent import Agent
from penstock.agents.tool_offer import TaskOffers, caller_for, definition, offered
from penstock.core.call import Origin
from penstock.core.ids import LogId, ProfileId, new_id
from penstock.core.limits import Limits, World
from penstock.core.profile import LOCAL_PROFILE, Profile
from penstock.engine.session_state import SessionState
from penstock.manifest.skill import SkillManifest
from penstock.models.model import ToolDefinition
from penstock.store.blobs import open_blobs
from penstock.testing.clock import FakeClock
from penstock.tools.artifacts import Artifacts
from penstock.tools.invoker import Invoker
from penstock.tools.policy import Action, Rule, RuleSet
from penstock.tools.resources import Resources
from penstock.tools.skills import Skills, TaskSkills
from penstock.tools.spec import ANY_INPUT
from penstock.tools.tool import Registry
from tests.kit.agent_texts import agent_of
from tests.kit.assistant import agent
from tests.kit.tools import Act

ANN = Profile(profile_id=ProfileId("ann"), permissions=frozenset({"chat"}))


def invoker_with(*rules: Rule) -> Invoker:
    world = World(FakeClock(), Limits(), new_id)
    tools = [
        Act("look"),
        Act("mail"),
        Act("rule", requires_permissions=frozenset({"root"})),
        Act("broken", is_broken=True),
        Act("helper", is_offered=False),
        Act("ask_user", is_offered=False),
    ]
    artifacts = Artifacts(open_blobs("memory:///"), world.limits, new_id)
    return Invoker(Registry(tools), RuleSet(rules), Resources(artifacts=artifacts), world=world)


@pytest.mark.parametrize(
    ("settings", "rules", "names"),
    [
        ({}, [], ["look", "mail", "rule"]),
        ({"tools_enabled": False}, [], []),
        ({"enabled_tools": ()}, [], []),
        ({"enabled_tools": ("rule", "look")}, [], ["look", "rule"]),
        ({"enabled_tools": ("look", "gone")}, [], ["look"]),
        ({"tool_permissions": {"mail": "deny"}}, [], ["look", "rule"]),
        ({"tool_permissions": {"mail": "ask"}}, [], ["look", "mail", "rule"]),
        ({}, [Rule(tool="m*", action=Action.DENY)], ["look", "rule"]),
        ({}, [Rule(tool="m*", action=Action.DENY, agent="other")], ["look", "mail", "rule"]),
        ({"tool_permissions": {"mail": "allow"}}, [Rule(tool="*", action=Action.DENY)], []),
    ],
)
def test_only_enabled_and_permitted_tools_are_offered(
    settings: dict[str, Any], rules: list[Rule], names: list[str]
) -> None:
    """The chat's promise: `tools_enabled` and `enabled_tools`; what is denied is not offered."""
    tools = offered(agent(**settings), invoker_with(*rules), LOCAL_PROFILE)
    assert [tool.spec.tool_id for tool in tools] == names


def test_a_tool_that_the_profile_may_not_use_is_not_offered() -> None:
    tools = offered(agent(), invoker_with(), ANN)
    assert [tool.spec.tool_id for tool in tools] == ["look", "mail"]


def test_a_model_is_a_caller_that_reads_clipped_results() -> None:
    caller = caller_for(agent(result_max_chars=100, question_ttl_seconds=5), ANN, ("look",))
    assert (caller.origin, caller.profile) == (Origin.MODEL, ANN)
    assert (caller.agent_tools, caller.clip_at) == (("look",), 100)
    assert caller.question_ttl_seconds == 5


def test_a_model_receives_the_schema_unchanged() -> None:
    schema = {"type": "object", "properties": {"q": {"type": "string", "format": "email"}}}
    assert definition(Act("look", input_schema=schema)) == ToolDefinition(
        name="look", description="Does look.", parameters=schema, is_builtin=True
    )
    assert definition(Act("look")).parameters == ANY_INPUT


def offers(
    *rules: Rule,
    fixed: tuple[str, ...] | None = ("look",),
    tools: tuple[str, ...] = (),
    someone: Agent | None = None,
    **settings: Any,
) -> TaskOffers:
    """Return the offers of a task in a project where one skill brings tools along."""
    skill = SkillManifest(
        skill_id="s",
        name="S",
        description="",
        instruction="Mind it.",
        tools=("look", "mail", "rule", "broken", "gone", *tools),
        script_tools=("helper",),
        file="",
        line=1,
        folder="",
    )
    someone, state = someone or agent(**settings), SessionState(LogId("log"))
    choice = someone.settings.skill_choice
    skills = TaskSkills(Skills({"s": skill}), state, lambda: choice, profile=ANN)
    caller = caller_for(someone, ANN, fixed or (), skills)
    return TaskOffers(someone, invoker_with(*rules), caller, fixed=fixed)


@pytest.mark.parametrize(
    ("rules", "settings", "names"),
    [
        ([], {}, ["look", "mail"]),
        ([Rule(tool="m*", action=Action.DENY)], {}, ["look"]),
        ([], {"tool_permissions": {"mail": "deny"}}, ["look"]),
        ([], {"skills": ()}, ["look"]),
    ],
)
def test_the_tools_of_a_selected_skill_come_on_top(
    rules: list[Rule], settings: dict[str, Any], names: list[str]
) -> None:
    """What is denied, what the profile may not use and what is broken is not offered."""
    offer = offers(*rules, **settings).at(("s",))
    assert [each.name for each in offer.definitions] == names


@pytest.mark.parametrize(
    ("fixed", "is_in_system"),
    [(("look", "activate_skill"), False), (("look",), True), (None, True)],
)
def test_instructions_among_the_messages_are_not_in_the_system_prompt(
    fixed: tuple[str, ...] | None, *, is_in_system: bool
) -> None:
    """Unless the model has no tool whose outcomes it may take for instructions."""
    some = offers(fixed=fixed)
    offer = some.at(("s",), ("s",))
    assert ("Mind it." in offer.system) is is_in_system
    assert ("activate_skill returns are an exception" in offer.system) is not is_in_system
    assert some.at(("s",)).definitions == offer.definitions
    assert "Mind it." in some.at(("s",)).system


def test_without_tools_a_skill_adds_only_its_instructions() -> None:
    """A selected skill's tools come on top of a list, not of the switch that is off."""
    offer = offers(fixed=None).at(("s",))
    assert (offer.definitions, offer.caller.selection.tools) == ((), frozenset())
    assert "Mind it." in offer.system


def test_an_empty_list_of_tools_has_those_of_the_skills() -> None:
    assert [each.name for each in offers(fixed=()).at(("s",)).definitions] == ["look", "mail"]


def test_an_offer_is_made_once_as_long_as_the_selection_stays() -> None:
    """The selection of a session is one tuple until it grows."""
    some, none, chosen = offers(), (), ("s",)
    before = some.at(none)
    assert some.at(none) is before
    after = some.at(chosen)
    assert some.at(chosen) is after
    assert "Mind it." not in before.system
    assert some.at(none).system == before.system


@pytest.mark.parametrize("names", [None, ("broken",)])
def test_a_broken_tool_is_never_offered(names: tuple[str, ...] | None) -> None:
    tools = offered(agent(enabled_tools=names), invoker_with(), LOCAL_PROFILE)
    assert "broken" not in [tool.spec.tool_id for tool in tools]


def test_a_chat_with_the_agent_of_a_file_keeps_its_access() -> None:
    """A chat with a file agent uses its `tools:` as `enabled_tools` and keeps its `access`."""
    scout = agent_of("---\nname: scout\naccess: { read: src/** }\n---\n")
    access = caller_for(scout, ANN, ()).access
    assert (access.agent, access.read, access.write) == ("scout", ("src/**",), None)


@pytest.mark.parametrize(("head", "is_offered"), [("", True), ("interactive: false\n", False)])
def test_an_agent_that_is_not_interactive_is_offered_no_question_to_people(
    head: str, is_offered: bool
) -> None:
    """Neither where its file lists it, nor where a skill brings it along."""
    listing = agent_of(f"---\nname: scout\ntools: look, ask_user\n{head}---\n")
    named = [each.spec.tool_id for each in offered(listing, invoker_with(), LOCAL_PROFILE)]
    assert named == ["look", *(["ask_user"] if is_offered else [])]
    skilled = offers(someone=listing, tools=("ask_user",))
    added = [each.name for each in skilled.at(("s",)).definitions]
    assert added == ["look", "mail", *(["ask_user"] if is_offered else [])]
