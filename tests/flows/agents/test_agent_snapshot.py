"""A session continues with the agent that it started with, even if the file changes."""

import dataclasses

import pytest
from msgspec.structs import replace

from penstock.agents.agent import Agent
from penstock.agents.agent_profile import AgentProfile
from penstock.agents.settings import ChatSettings
from penstock.builtins.ask_user import AskUser
from penstock.core.events.flow_events import AgentStarted, Output, ValueType
from penstock.core.ids import LogId
from penstock.flows.agents.agent_snapshot import kept_agent, kept_of
from penstock.models.model import ModelRequest
from penstock.models.scripted import ScriptedModel, ScriptedReply, call
from penstock.resources.project.access import Access
from penstock.testing.runtime import MemoryStorage, memory_runtime
from penstock.tools.tool import Tool
from tests.kit.flows import (
    RUN,
    WORKERS,
    by_task,
    finish,
    flows_of,
    run_in,
    see_through,
    steps,
    worker,
)
from tests.kit.tools import Act

TWO = """
  - {id: a, agent: asker, task: a}
  - {id: b, agent: scout, task: "${{result.a.n}}"}
"""
FIRST = worker("asker", tools=("look",), outputs=(Output(name="n", value_type=ValueType.NUMBER),))
EDITED = worker("asker", outputs=(Output(name="other", is_required=True),), is_interactive=False)
ACCESS = Access(agent="a", read=("src/**",), write=(), deny=("rm",))
FULL = AgentProfile(
    file="agents/a.md",
    content_hash="ab",
    thinking="high",
    tools=("read",),
    outputs=(*EDITED.profile.outputs, Output(name="p", pattern="^x")),
    is_interactive=False,
    access=ACCESS,
    max_turns=3,
    reply_tokens=2048,
)

SETTINGS = ChatSettings(
    tool_permissions={"mail": "deny"}, enabled_tools=("read",), skills=(), llm_max_tokens=9
)
AGENT = Agent("a", settings=SETTINGS, profile=FULL)


def asks(request: ModelRequest) -> ScriptedReply:
    """Ask, then look, then finish, as the tools of the first agent allow."""
    asked = call("ask_user", question="Now?", type="confirm")
    told = [each for each in request.messages if type(each).__name__ == "ToolMessage"]
    return [asked, call("look"), finish("asked", n=3)][len(told)]


@pytest.mark.parametrize("left", [None, EDITED], ids=["deleted", "edited"])
async def test_a_visit_continues_with_the_agent_that_it_started_with(left: Agent | None) -> None:
    """An existing local file: replaced; a run in progress keeps what it started with."""
    place = MemoryStorage(flows=flows_of(demo=steps(TWO)))
    model, look = ScriptedModel(by_task({"a": asks})), Act("look")
    tools: list[Tool] = [AskUser(), look]
    async with memory_runtime(
        model=model, agents=[*WORKERS, FIRST], tools=tools, place=place
    ) as runtime:
        await run_in(runtime)
    agents = [*WORKERS, *([left] if left else [])]
    async with memory_runtime(model=model, agents=agents, tools=tools, place=place) as runtime:
        (asked,) = await runtime.parts.storage.projections.open_questions(LogId(RUN))
        await runtime.answer(asked.question.question_id, {"value": True})
        reply = await runtime.wait(RUN)
    assert reply is not None
    assert reply.envelope is not None
    assert reply.envelope.ok, reply.envelope
    assert reply.envelope.output["results"]["a"]["n"] == 3
    assert len(look.runs) == 1


def test_a_stored_agent_profile_reads_back() -> None:
    began = AgentStarted(
        agent="a", message="m", system="s", agent_hash="ab", charter=kept_of(AGENT, "high")
    )
    found = kept_agent(began, None)
    assert found is not None
    assert (found.name, found.profile, found.settings) == ("a", FULL, SETTINGS)


def test_a_log_without_a_stored_profile_uses_the_current_agent() -> None:
    began = AgentStarted(agent="a", message="m", system="s")
    assert kept_agent(began, None) is None
    assert kept_agent(began, EDITED) is EDITED
    assert kept_agent(replace(began, charter=kept_of(AGENT, None)), EDITED) is not EDITED


async def test_a_tool_that_was_denied_stays_denied_when_the_file_is_gone() -> None:
    settings = ChatSettings(tool_permissions={"look": "deny"})
    place = MemoryStorage(flows=flows_of(demo=steps(TWO)))
    model, look = ScriptedModel(by_task({"a": asks})), Act("look")
    tools: list[Tool] = [AskUser(), look]
    agents = [*WORKERS, dataclasses.replace(FIRST, settings=settings)]
    async with memory_runtime(model=model, agents=agents, tools=tools, place=place) as runtime:
        await run_in(runtime)
    async with memory_runtime(model=model, agents=WORKERS, tools=tools, place=place) as runtime:
        reply = await see_through(runtime, {"value": True}, task="t")
    assert reply.envelope is not None
    assert reply.envelope.ok, reply.envelope
    assert look.runs == []
