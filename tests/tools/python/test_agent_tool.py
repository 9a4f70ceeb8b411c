"""An agent as a tool: its specification, and a runtime that runs no agents."""

from dataclasses import dataclass
from typing import Any

import pytest

from penstock.agents.agent import Agent
from penstock.core.call import Effect
from penstock.core.errors import ConfigError
from penstock.testing.invocation import open_workbench
from penstock.tools.python.agent_tool import agent_tool

CLERK = Agent("clerk", description="Sorts letters.")


@dataclass
class Letter:
    """A letter."""

    sender: str


def test_the_tool_has_the_name_and_the_description_of_its_agent() -> None:
    made = agent_tool(CLERK, name=None, description=None, input=None, output=True)
    assert (made.spec.tool_id, made.spec.description) == ("clerk", "Sorts letters.")
    assert made.spec.input_schema["required"] == ["task"]
    assert (made.spec.effect, made.spec.is_frame) == (Effect.WRITE, True)


def test_an_agent_without_a_description_gets_one() -> None:
    made = agent_tool(Agent("a"), name="b", description=None, input=Letter, output=True)
    assert (made.spec.tool_id, made.spec.description) == ("b", "Have the agent a do a task.")
    assert list(made.spec.input_schema["properties"]) == ["sender"]


def test_an_input_without_fields_is_refused() -> None:
    with pytest.raises(ConfigError, match="input of the agent 'clerk' must be a type with fields"):
        agent_tool(CLERK, name=None, description=None, input=int, output=True)


@pytest.mark.parametrize("name", ["a b", "", 5])
def test_a_name_that_is_no_id_of_a_tool_is_refused(name: Any) -> None:
    with pytest.raises(ConfigError, match=f"name of the agent 'clerk' .*; found {name!r}"):
        CLERK.as_tool(name=name)


async def test_without_a_runtime_the_call_reports_it() -> None:
    made = agent_tool(CLERK, name=None, description=None, input=None, output=True)
    bench = await open_workbench(made)
    envelope = await bench.call("clerk", {"task": "Sort"})
    assert envelope.error
    assert envelope.error.code == "NOT_CONFIGURED"
