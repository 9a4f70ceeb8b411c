"""Which tools a model is offered: switches, lists, denials, permissions."""

from typing import Any

import pytest

from penstock.agents.offer import caller_for, definition, offered
from penstock.core.call import Origin
from penstock.core.ids import ProfileId, new_id
from penstock.core.limits import Limits
from penstock.core.profile import LOCAL_PROFILE, Profile
from penstock.core.world import World
from penstock.models.model import ToolDefinition
from penstock.store.blobs import open_blobs
from penstock.testing.clock import FakeClock
from penstock.tools.artifacts import Artifacts
from penstock.tools.invoker import Invoker
from penstock.tools.registry import Registry
from penstock.tools.resources import Resources
from penstock.tools.rules import Action, Rule, Rules
from penstock.tools.spec import ANY_INPUT
from tests.kit.assistant import agent
from tests.kit.tools import Act

ANN = Profile(profile_id=ProfileId("ann"), permissions=frozenset({"chat"}))


def invoker_with(*rules: Rule) -> Invoker:
    world = World(FakeClock(), Limits(), new_id)
    tools = [Act("look"), Act("mail"), Act("rule", requires_permissions=frozenset({"root"}))]
    artifacts = Artifacts(open_blobs("memory:///"), world.limits, new_id)
    return Invoker(Registry(tools), Rules(rules), Resources(artifacts=artifacts), world=world)


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
def test_what_is_offered(settings: dict[str, Any], rules: list[Rule], names: list[str]) -> None:
    """The chat's promise: `tools_enabled` and `enabled_tools`; what is denied is not offered."""
    tools = offered(agent(**settings), invoker_with(*rules), LOCAL_PROFILE)
    assert [tool.spec.tool_id for tool in tools] == names


def test_a_tool_that_the_profile_may_not_use_is_not_offered() -> None:
    tools = offered(agent(), invoker_with(), ANN)
    assert [tool.spec.tool_id for tool in tools] == ["look", "mail"]


def test_a_model_is_a_caller_that_reads_clipped_results() -> None:
    caller = caller_for(agent(result_max_chars=100, question_ttl_seconds=5), ANN, ("look",))
    assert (caller.origin, caller.profile) == (Origin.MODEL, ANN)
    assert (caller.agent_tools, caller.clip_at) == (frozenset({"look"}), 100)
    assert caller.question_ttl_seconds == 5


def test_a_model_is_told_the_schema_word_for_word() -> None:
    schema = {"type": "object", "properties": {"q": {"type": "string", "format": "email"}}}
    assert definition(Act("look", input_schema=schema)) == ToolDefinition(
        name="look", description="Does look.", parameters=schema
    )
    assert definition(Act("look")).parameters == ANY_INPUT
