"""Agents as tools of other agents: their outputs, their place in the log, crashes and questions."""

from typing import Any

import pytest
from pydantic import BaseModel

from penstock import Agent, AgentContext, Ask, Hooks, Refuse, ToolCall, ToolContext, tool
from penstock.agents.agent import ChatSettings
from penstock.app.settings import MAXIMA
from penstock.chat.requests import TaskReply
from penstock.core.errors import ConfigError
from penstock.core.events.events import CallSettled
from penstock.core.ids import LogId
from penstock.core.limits import Limits
from penstock.core.profile import Profile
from penstock.models.model import ModelRequest
from penstock.models.scripted import ScriptedModel, call, fail, say
from penstock.testing.clock import FakeClock
from penstock.testing.runtime import MemoryStorage, memory_runtime
from tests.kit.assistant import assert_whole
from tests.kit.dying_log import DyingLog, live, see_through
from tests.kit.logs import settled
from tests.kit.tools import Act


class Finding(BaseModel):
    """What was found."""

    topic: str
    count: int


class Query(BaseModel):
    """What is wanted."""

    topic: str


FOUND = call("final_answer", topic="tea", count=3)


def team(
    inner: Any, script: Any, **options: Any
) -> tuple[Agent[Any, Any], ScriptedModel, ScriptedModel]:
    """Return a writer whose tool is a researcher, and the models of both."""
    outer_model, inner_model = ScriptedModel(script), ScriptedModel(inner)
    researcher = Agent(
        "researcher", model=inner_model, description="Researches a topic.", **options
    )
    return Agent("writer", model=outer_model, tools=[researcher]), outer_model, inner_model


ASK = call("researcher", task="Find tea")


async def test_an_agent_in_the_list_of_tools_gets_a_task_and_returns_its_text() -> None:
    writer, outer, inner = team([say("Three teas.")], [ASK, say("Done.")])
    async with memory_runtime(agents=[writer]) as runtime:
        reply = await runtime.chat("Write about tea", agent=writer)
    assert reply.content == "Done."
    (definition,) = outer.requests[0].tools
    assert (definition.name, definition.description) == ("researcher", "Researches a topic.")
    assert outer.requests[1].messages[2].content == "Three teas."
    assert [message.content for message in inner.requests[0].messages] == ["Find tea"]
    assert [(each.tool, each.output) for each in reply.calls] == [("researcher", "Three teas.")]
    assert reply.usage.model_calls == 3


async def test_the_typed_output_of_an_agent_is_that_of_its_tool() -> None:
    wrong = call("final_answer", topic="tea")
    writer, outer, inner = team(
        [call("look") + wrong, call("look"), wrong, FOUND],
        [ASK, say("Done.")],
        output=Finding,
        tools=[Act("look")],
    )
    async with memory_runtime(agents=[writer]) as runtime:
        reply = await runtime.chat("Write", agent=writer)
    assert outer.requests[1].messages[2].content == '{"topic":"tea","count":3}'
    assert reply.calls[0].output == {"topic": "tea", "count": 3}
    assert len(inner.requests) == 4
    for request in (*inner.requests, *outer.requests):
        assert_whole(request)


async def test_a_tool_of_an_agent_may_have_a_name_an_input_and_return_text() -> None:
    model = ScriptedModel([say("Here:") + FOUND])
    researcher = Agent("researcher", model=model, output=Finding)
    looked_up = researcher.as_tool(name="look_up", description="Looks.", input=Query, output=False)
    outer = ScriptedModel([call("look_up", topic="tea"), say("Done.")])
    writer = Agent("writer", model=outer, tools=[looked_up])
    async with memory_runtime(agents=[writer]) as runtime:
        await runtime.chat("Write", agent=writer)
    assert model.requests[0].messages[0].content == '{"topic":"tea"}'
    assert outer.requests[1].messages[2].content == "Here:"
    with pytest.raises(ConfigError, match="input of the agent 'researcher' must be a type with"):
        researcher.as_tool(input=int)


@pytest.mark.parametrize(
    ("inner", "said"),
    [
        ([fail(400, "no")], "the agent researcher failed: "),
        ([call("final_answer")] * 3, "answers did not fit the output's schema"),
    ],
)
async def test_an_agent_that_fails_is_reported_to_its_caller(inner: Any, said: str) -> None:
    writer, outer, _ = team(inner, [ASK, say("Sorry.")], output=Finding)
    async with memory_runtime(agents=[writer]) as runtime:
        reply = await runtime.chat("Write", agent=writer)
    assert reply.content == "Sorry."
    assert said in outer.requests[1].messages[2].content


async def test_agents_that_call_each_other_come_to_an_end() -> None:
    model = ScriptedModel(
        lambda request: call("echo", task="Again") if request.tools else say("No.")
    )
    echo = Agent("echo", model=model, settings=ChatSettings(max_iterations=1))
    for _ in range(5):
        echo = Agent("echo", model=model, tools=[echo], settings=ChatSettings(max_iterations=1))
    place = MemoryStorage(limits=Limits(run_depth=3))
    async with memory_runtime(agents=[echo], place=place) as runtime:
        reply = await runtime.chat("Go", agent=echo)
        inside = [each.content for request in model.requests for each in request.messages]
    assert reply.usage.tool_calls == 4
    assert any("3 agents are inside each other already (limits.run_depth)" in e for e in inside)


async def test_the_deepest_agents_that_settings_allow_have_room_on_the_stack() -> None:
    most, watch = MAXIMA["run_depth"], Watch()
    model = ScriptedModel(
        lambda request: (
            call("echo", task="Again")
            if len(request.messages) == 1 and len(request.tools) > 1
            else call("final_answer", topic="tea", count=3)
        )
    )
    echo: Agent[Any, Any] = Agent("echo", model=model, output=Finding, hooks=[watch])
    for _ in range(most):
        echo = Agent("echo", model=model, output=Finding, hooks=[watch], tools=[echo])
    place = MemoryStorage(limits=Limits(run_depth=most))
    async with memory_runtime(agents=[echo], place=place) as runtime:
        reply = await runtime.chat("Go", agent=echo)
    assert reply.output == Finding(topic="tea", count=3)
    assert reply.usage.model_calls == 2 * most + 1


async def test_the_budget_of_the_task_includes_its_agents() -> None:
    outer, inner = ScriptedModel([ASK, say("Done.")]), ScriptedModel([call("look"), say("Late.")])
    researcher = Agent("researcher", model=inner, tools=[Act("look")])
    settings = ChatSettings(budget_model_calls=2)
    writer = Agent("writer", model=outer, tools=[researcher], settings=settings)
    async with memory_runtime(agents=[writer]) as runtime:
        reply = await runtime.chat("Write", agent=writer)
    assert reply.usage.model_calls == 2
    assert reply.finish_reason == "budget_exceeded"


async def test_a_question_of_an_inner_tool_is_one_of_the_task() -> None:
    pay = Act("pay", requires_approval=True)
    writer, _, inner = team([call("pay"), say("Paid.")], [ASK, say("Done.")], tools=[pay])
    place = MemoryStorage(limits=Limits(shutdown_seconds=0))
    async with memory_runtime(agents=[writer], place=place) as runtime:
        reply = await runtime.chat("Write", agent=writer)
        assert [each.tool for each in reply.questions] == ["pay"]
    async with memory_runtime(agents=[writer], place=place) as again:
        done = await again.approve(reply)
    assert done.content == "Done."
    assert len(pay.runs) == 1
    assert len(inner.requests) == 2


async def test_an_agent_gets_no_permission_that_its_caller_lacks() -> None:
    secret = Act("secret", requires_permissions=frozenset({"secrets"}))
    writer, _, inner = team([say("None.")], [ASK, say("Done.")], tools=[secret])
    guest = Profile(profile_id="guest", permissions=frozenset({"chat"}))  # type: ignore[arg-type]
    async with memory_runtime(agents=[writer]) as runtime:
        await runtime.chat("Write", agent=writer, profile=guest)
    assert inner.requests[0].tools == ()


async def test_an_inner_agent_has_the_dependencies_of_the_runtime() -> None:
    @tool(effect="read")
    def look(ctx: ToolContext[dict[str, int]], item: str) -> int:
        """Look up an item."""
        return ctx.deps[item]

    writer, _, inner = team(
        [call("look", item="tea"), say("ok")], [ASK, say("Done.")], tools=[look]
    )
    async with memory_runtime(agents=[writer], deps={"tea": 250}) as runtime:
        await runtime.chat("Write", agent=writer)
    assert inner.requests[1].messages[2].content == "250"


async def test_the_needs_of_an_inner_agent_are_checked_at_open() -> None:
    @tool(effect="read")
    def look(ctx: ToolContext[dict[str, int]], item: str) -> int:
        """Look up an item."""
        return ctx.deps[item]

    model = ScriptedModel([call("look", item="tea"), say("ok")])
    inner = Agent("researcher", model=model, tools=[look])
    with pytest.raises(ConfigError, match="the tool 'look' of agent 'researcher' needs deps"):
        async with memory_runtime(agents=[Agent("writer", tools=[inner])]):
            pass
    outer = ScriptedModel([ASK, say("Done.")])
    writer = Agent("writer", model=outer, tools=[inner.with_deps({"tea": 7})])
    async with memory_runtime(agents=[writer]) as runtime:
        await runtime.chat("Write", agent=writer)
    assert model.requests[1].messages[2].content == "7"


class Watch(Hooks[Any]):
    """Notes what it is asked, and refuses a tool."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def before_model(
        self, ctx: AgentContext[Any], request: ModelRequest
    ) -> ModelRequest | Refuse:
        self.asked.append(f"model of {ctx.agent}")
        return request

    async def before_call(self, ctx: AgentContext[Any], call: ToolCall) -> ToolCall | Refuse | Ask:
        self.asked.append(f"{call.tool} of {ctx.agent}")
        return Refuse("Not now.") if call.tool == "pay" else call


async def test_the_hooks_of_an_inner_agent_are_asked() -> None:
    pay, watch = Act("pay"), Watch()
    script = [call("pay"), say("No.")]
    writer, _, inner = team(script, [ASK, say("Done.")], tools=[pay], hooks=[watch])
    async with memory_runtime(agents=[writer]) as runtime:
        reply = await runtime.chat("Write", agent=writer)
    assert reply.content == "Done."
    assert pay.runs == []
    assert "Not now." in inner.requests[1].messages[2].content
    of_inner = [each for each in watch.asked if each.endswith("of researcher")]
    assert of_inner == ["model of researcher", "pay of researcher", "model of researcher"]


async def work(log: DyingLog, clock: FakeClock) -> tuple[TaskReply, list[CallSettled]]:
    """Open runtimes until the task of the writer has ended; return its reply and its calls."""
    inner = ScriptedModel({"Find": [call("look"), FOUND]})
    researcher = Agent("researcher", model=inner, output=Finding, tools=[Act("look")])
    outer = ScriptedModel({"Write": [ASK, say("Done.")]})
    writer = Agent("assistant", model=outer, tools=[researcher])
    place = MemoryStorage(clock=clock, log=log, limits=Limits(shutdown_seconds=0))
    while True:
        async with memory_runtime(agents=[writer], place=place) as runtime:
            reply = await live(runtime, log, see_through(runtime, "Write", lambda question: {}))
            if reply is not None:
                session = LogId(reply.session_id)
                return reply, await settled(runtime, session)
        log.revive()
        clock.advance(place.limits.lease_seconds + 1)


WRITES = 6


async def test_the_story_without_a_crash() -> None:
    clock = FakeClock()
    log = DyingLog(clock, writes=-1, before=False)
    await work(log, clock)
    assert log.writes == WRITES


@pytest.mark.chaos
@pytest.mark.parametrize("before", [False, True], ids=["after", "before"])
@pytest.mark.parametrize("writes", range(1, WRITES + 1))
async def test_a_task_killed_at_any_write_ends_the_same(writes: int, before: bool) -> None:
    """The agent continues from its dialogue; its settled calls do not run again."""
    clock = FakeClock()
    reply, ended = await work(DyingLog(clock, writes=writes, before=before), clock)
    assert reply.content == "Done."
    assert [each.tool_id for each in ended] == ["look", "final_answer", "researcher"]
    assert ended[-1].envelope.output == {"topic": "tea", "count": 3}
