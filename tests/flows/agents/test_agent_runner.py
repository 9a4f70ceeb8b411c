"""Agent sessions: their tools, prompts and stored settings."""

import pytest
from msgspec.structs import replace

from penstock.agents.agent import Agent, ChatSettings
from penstock.agents.agent_file import parse_agent
from penstock.agents.agent_profile import AgentProfile
from penstock.builtins.ask_user import AskUser
from penstock.core.events.events import CallSettled, Entry
from penstock.core.events.flow_events import AgentStarted, Output, ValueType
from penstock.core.ids import LogId
from penstock.core.limits import Limits
from penstock.core.messages import ToolMessage
from penstock.flows.agents.agent_runner import kept_agent, kept_of, with_room
from penstock.models.model import ModelRequest
from penstock.models.scripted import ScriptedModel, ScriptedReply, call
from penstock.resources.project.access import Access
from penstock.testing.runtime import MemoryStorage, memory_runtime
from penstock.tools.tool import Tool
from tests.kit.flows import (
    RUN,
    W1,
    WORKERS,
    by_task,
    finish,
    flows_of,
    run_flow,
    run_in,
    see_through,
    steps,
    told_in,
    worker,
)
from tests.kit.tools import Act


async def test_an_agent_receives_only_its_own_task() -> None:
    """The session sees nothing of the main session or of other steps."""
    model = ScriptedModel(by_task({}))
    await run_flow(W1, model)
    assert [len(request.messages) for request in model.requests] == [1, 1, 1]
    assert all("You are" in request.system for request in model.requests)
    assert [tool.name for tool in model.requests[0].tools] == ["finish"]


async def test_a_missing_agent_fails_its_step_softly() -> None:
    """Agent gone from the catalog since the start: soft, `agent_unknown`."""
    text = """
  - {id: web, agent: absent, task: t, on_error: other}
  - {id: stop, agent: scout, end: true}
  - {id: other, agent: scout, task: other}
"""
    envelope = await run_flow(text, ScriptedModel(by_task({})))
    assert envelope.ok
    assert "There is no agent 'absent'" in envelope.output["results"]["web"]["summary"]


async def test_a_model_that_cannot_be_resolved_fails_its_step_softly() -> None:
    """Model cannot be resolved: soft, `model_unresolved`."""
    text = "  - {id: web, agent: scout, task: t, model: openai/without-a-key}"
    envelope = await run_flow(text, ScriptedModel([]))
    assert envelope.output["status"] == "error"
    assert envelope.output["results"]["web"]["status"] == "error"


@pytest.mark.parametrize("status", ["complete", "blocked"])
async def test_a_finished_session_needs_no_model(status: str) -> None:
    """17: "after a valid `finish`, before the step settled": settles from the log."""
    flows = flows_of(demo=steps("  - {id: web, agent: scout, task: web}"))
    before, place = MemoryStorage(flows=flows), MemoryStorage(flows=flows)
    model = ScriptedModel([finish("seen", status=status)])
    async with memory_runtime(model=model, agents=WORKERS, place=before) as runtime:
        await run_in(runtime)
    kept = [
        Entry(each.event, each.task_id, each.path) for each in await before.log.read(LogId(RUN))
    ]
    calls = [number for number, each in enumerate(kept) if isinstance(each.event, CallSettled)]
    await place.log.send(LogId(RUN), kept[: calls[0] + 1])
    async with memory_runtime(agents=WORKERS, place=place) as runtime:
        reply = await runtime.requests.wait(RUN)
    assert reply is not None
    assert reply.envelope is not None
    result = reply.envelope.output["results"]["web"]
    assert (result["status"], result["summary"]) == (status, "seen")


@pytest.mark.parametrize("name", ["functions/look", "a/b#c/d"])
async def test_a_call_with_an_invalid_name_is_refused_and_the_agent_continues(name: str) -> None:
    model = ScriptedModel([call(name), finish("done")])
    envelope = await run_flow("  - {id: web, agent: scout}", model)
    assert envelope.output["status"] == "success"
    (message,) = [each for each in model.requests[1].messages if isinstance(each, ToolMessage)]
    assert "TOOL_NOT_FOUND" in message.content


async def test_an_agent_is_offered_its_declared_tools_and_finish() -> None:
    look, other = Act("look"), Act("other")
    model = ScriptedModel([finish("ok")])
    agents = [worker("scout", tools=("look", "gone"))]
    await run_flow("  - {id: web, agent: scout}", model, tools=[look, other], agents=agents)
    assert [tool.name for tool in model.requests[0].tools] == ["look", "finish"]


async def test_a_run_stores_the_hash_of_each_agent() -> None:
    """`flow_agent_started` holds the hash of the resolved agent (section 17)."""
    place = MemoryStorage(flows=flows_of(demo=steps("  - {id: web, agent: scout}")))
    agents = [worker("scout", content_hash="ab")]
    model = ScriptedModel(by_task({}))
    async with memory_runtime(model=model, agents=agents, place=place) as runtime:
        await run_in(runtime)
    events = [each.event for each in await place.log.read(LogId(RUN))]
    assert [each.agent_hash for each in events if isinstance(each, AgentStarted)] == ["ab"]


@pytest.mark.parametrize(
    ("message", "window", "expected"),
    [
        ("", None, 8192),
        ("", 1_000_000, 8192),
        ("", 16_000, 4000),
        ("", 4096, 2048),
        ("9", None, 9),
        ("2048", None, 2048),
    ],
)
def test_an_agent_of_a_flow_has_a_reply_limit_that_suits_files(
    message: str, window: int | None, expected: int
) -> None:
    """`limits.agent_reply_tokens`, where its file does not say it; a quarter of a window."""
    settings = message and f"settings: {{llm_max_tokens: {message}}}\n"
    read = parse_agent(f"---\nname: a\ndescription: d\ntools:\n{settings}---\n", "agents/a.md")
    assert read.agent is not None
    assert with_room(read.agent, window, max_reply=8192).llm_max_tokens == expected


async def test_the_size_of_a_reply_is_limited() -> None:
    model = ScriptedModel(by_task({}))
    flows = flows_of(demo=steps("  - {id: a, agent: scout, task: a}"))
    place = MemoryStorage(flows=flows, limits=Limits(agent_reply_tokens=5000))
    async with memory_runtime(model=model, agents=WORKERS, place=place) as runtime:
        await run_in(runtime)
    assert [each.max_tokens for each in model.requests] == [5000]


ROLES = """
  - {id: a, agent: scout, model: "@planning", task: a}
  - {id: b, agent: scout, model: "@planning", task: b, blockedBy: [a]}
"""


async def test_a_role_that_is_not_set_causes_one_warning_per_run() -> None:
    """4.2: the names planning, … fall back to the project's model (one `flow_warning` a run)."""
    model = ScriptedModel(by_task({}))
    place = MemoryStorage(flows=flows_of(demo=steps(ROLES)))
    async with memory_runtime(model=model, agents=WORKERS, place=place) as runtime:
        await run_in(runtime)
        (warning,) = await told_in(runtime, "flow_warning")
    assert warning["message"].startswith("the model role @planning is not set: ")


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
    results = [each for each in request.messages if type(each).__name__ == "ToolMessage"]
    return [asked, call("look"), finish("asked", n=3)][len(results)]


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
        await runtime.requests.answer(asked.question.question_id, {"value": True})
        reply = await runtime.requests.wait(RUN)
    assert reply is not None
    assert reply.envelope is not None
    assert reply.envelope.ok, reply.envelope
    assert reply.envelope.output["results"]["a"]["n"] == 3
    assert len(look.runs) == 1


def test_a_stored_agent_profile_reads_back() -> None:
    began = AgentStarted(
        agent="a", message="m", system="s", agent_hash="ab", charter=kept_of(AGENT, "high")
    )
    agent = kept_agent(began, None)
    assert agent is not None
    assert (agent.name, agent.profile, agent.settings) == ("a", FULL, SETTINGS)


def test_a_log_without_a_stored_profile_uses_the_current_agent() -> None:
    began = AgentStarted(agent="a", message="m", system="s")
    assert kept_agent(began, None) is None
    assert kept_agent(began, EDITED) is EDITED
    assert kept_agent(replace(began, charter=kept_of(AGENT, None)), EDITED) is not EDITED


async def test_a_denied_tool_stays_denied_after_its_file_was_removed() -> None:
    settings = ChatSettings(tool_permissions={"look": "deny"})
    place = MemoryStorage(flows=flows_of(demo=steps(TWO)))
    model, look = ScriptedModel(by_task({"a": asks})), Act("look")
    tools: list[Tool] = [AskUser(), look]
    agents = [*WORKERS, FIRST.__replace__(settings=settings)]
    async with memory_runtime(model=model, agents=agents, tools=tools, place=place) as runtime:
        await run_in(runtime)
    async with memory_runtime(model=model, agents=WORKERS, tools=tools, place=place) as runtime:
        reply = await see_through(runtime, {"value": True}, task="t")
    assert reply.envelope is not None
    assert reply.envelope.ok, reply.envelope
    assert look.runs == []
