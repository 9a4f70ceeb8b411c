"""The hooks, rules and deps of agents inside each other: delegating a call escapes no guard."""

from typing import Any

import pytest

from penstock.agents.agent import Agent, ChatSettings
from penstock.agents.agent_profile import AgentProfile
from penstock.builtins.subagent import TOOLS as SUBAGENT
from penstock.core.envelope import Envelope
from penstock.core.errors import ConfigError
from penstock.core.reply import ToolCall, UserMessage
from penstock.models.model import ModelRequest
from penstock.models.scripted import ScriptedModel, ScriptedReply, call, say
from penstock.resources.dependencies import AgentContext
from penstock.resources.project.access import Access
from penstock.testing.clock import FakeClock
from penstock.testing.runtime import memory_runtime
from penstock.tools.hooks.hooks import Ask, Hooks, Refuse
from penstock.tools.policy import Action, Rule
from tests.kit.dying_log import DyingLog, outlived
from tests.kit.flows import finish, worker
from tests.kit.tools import Act

ASK = call("researcher", task="Find tea")


class Guard(Hooks[Any]):
    """Notes what it is asked, and decides about the tool `pay`."""

    def __init__(self, name: str, asked: list[str], about_pay: Any = None) -> None:
        self.name = name
        self._asked = asked
        self._about_pay = about_pay

    async def before_call(self, ctx: AgentContext[Any], call: ToolCall) -> ToolCall | Refuse | Ask:
        self._asked.append(f"{self.name} of {ctx.agent}: {call.tool} {call.input}")
        if call.tool != "pay" or self._about_pay is None:
            return call
        if isinstance(self._about_pay, dict):
            return ToolCall(id=call.id, tool=call.tool, input=self._about_pay)
        decided: Refuse | Ask = self._about_pay
        return decided

    async def after_call(
        self, ctx: AgentContext[Any], call: ToolCall, envelope: Envelope
    ) -> Envelope:
        self._asked.append(f"{self.name} after {call.tool}")
        return envelope


def team(pay: Act, inner_hooks: list[Any], outer_hooks: list[Any]) -> Agent[Any, Any]:
    """Return a writer with hooks, whose tool is a researcher with hooks, who pays 1."""
    model = ScriptedModel([call("pay", n=1), say("Paid.")])
    researcher: Agent[Any, Any] = Agent("researcher", model=model, tools=[pay], hooks=inner_hooks)
    outer = ScriptedModel([ASK, say("Done.")])
    return Agent("writer", model=outer, tools=[researcher], hooks=outer_hooks)


async def test_the_project_the_outer_and_the_inner_agent_are_asked_in_this_order() -> None:
    asked: list[str] = []
    pay = Act("pay")
    project, outer, inner = (
        Guard("project", asked),
        Guard("outer", asked, {"n": 2}),
        Guard("inner", asked, {"n": 3}),
    )
    async with memory_runtime(agents=[team(pay, [inner], [outer])], hooks=[project]) as runtime:
        await runtime.chat("Go", agent="writer")
    assert asked == [
        "project of writer: researcher {'task': 'Find tea'}",
        "outer of writer: researcher {'task': 'Find tea'}",
        "project of researcher: pay {'n': 1}",
        "outer of writer: pay {'n': 1}",
        "inner of researcher: pay {'n': 2}",
        *("project after pay", "outer after pay", "inner after pay"),
        *("project after researcher", "outer after researcher"),
    ]
    assert pay.runs == [{"n": 3}]


@pytest.mark.parametrize(
    ("outer", "inner", "runs", "asks"),
    [
        (None, None, [{"n": 1}], False),
        (Refuse("No."), None, [], False),
        (None, Refuse("No."), [], False),
        (Refuse("No."), {"n": 3}, [], False),
        (Ask("Really?"), None, [{"n": 1}], True),
        (Ask("Really?"), Refuse("No."), [], False),
        (None, Ask("Really?"), [{"n": 1}], True),
    ],
)
async def test_a_call_of_an_inner_agent_needs_the_consent_of_both(
    outer: Any, inner: Any, runs: list[Any], *, asks: bool
) -> None:
    pay = Act("pay")
    writer = team(pay, [Guard("inner", [], inner)], [Guard("outer", [], outer)])
    async with memory_runtime(agents=[writer]) as runtime:
        reply = await runtime.chat("Go", agent=writer)
        assert bool(reply.questions) is asks
        if asks:
            reply = await runtime.approve(reply)
    assert (reply.output, pay.runs) == ("Done.", runs)


async def test_the_guard_of_the_outermost_agent_reaches_every_depth() -> None:
    pay = Act("pay")
    payer: Agent[Any, Any] = Agent(
        "payer", model=ScriptedModel([call("pay", n=1), say("No.")]), tools=[pay]
    )
    middle: Agent[Any, Any] = Agent(
        "researcher", model=ScriptedModel([call("payer", task="Pay"), say("No.")]), tools=[payer]
    )
    writer: Agent[Any, Any] = Agent(
        "writer",
        model=ScriptedModel([ASK, say("Done.")]),
        tools=[middle],
        hooks=[Guard("outer", [], Refuse("No."))],
    )
    async with memory_runtime(agents=[writer]) as runtime:
        await runtime.chat("Go", agent=writer)
    assert pay.runs == []


class Purse(Hooks[dict[str, int]]):
    """Refuses what its dependencies say is too much."""

    def __init__(self, name: str) -> None:
        self.name = name

    async def before_call(
        self, ctx: AgentContext[dict[str, int]], call: ToolCall
    ) -> ToolCall | Refuse:
        is_small = call.tool != "pay" or call.input["n"] <= ctx.deps["most"]
        return call if is_small else Refuse(f"too much for {self.name}")


@pytest.mark.parametrize(
    ("most_outer", "most_inner", "said"),
    [(0, 9, "too much for outer"), (9, 0, "too much for inner"), (9, 9, "done")],
)
async def test_each_hook_gets_the_dependencies_of_its_own_agent(
    most_outer: int, most_inner: int, said: str
) -> None:
    pay = Act("pay")
    model = ScriptedModel([call("pay", n=1), say("Paid.")])
    researcher: Agent[Any, Any] = Agent(
        "researcher", model=model, tools=[pay], hooks=[Purse("inner")]
    )
    with pytest.raises(ConfigError, match="the hook 'inner' of agent 'researcher' needs deps"):
        async with memory_runtime(agents=[Agent("writer", tools=[researcher])]):
            pass
    writer: Agent[Any, Any] = Agent(
        "writer",
        model=ScriptedModel([ASK, say("Done.")]),
        tools=[researcher.with_deps({"most": most_inner})],
        hooks=[Purse("outer")],
    )
    async with memory_runtime(agents=[writer], deps={"most": most_outer}) as runtime:
        await runtime.chat("Go", agent=writer)
    assert said in model.requests[1].messages[-1].content


class Censor(Hooks[Any]):
    """Removes numbers of cards from messages, and refuses bad ones."""

    async def on_input(self, ctx: AgentContext[Any], message: UserMessage) -> UserMessage | Refuse:
        if "steal" in message.text:
            return Refuse("Not that.")
        return UserMessage(text=message.text.replace("4111", "[card]"), id=message.id)


async def test_the_task_of_an_inner_agent_is_shown_to_its_hooks() -> None:
    inner = ScriptedModel([say("Tea.")])
    researcher: Agent[Any, Any] = Agent("researcher", model=inner, hooks=[Censor()])
    tasks = [call("researcher", task=task) for task in ("Find tea for 4111", "steal tea")]
    outer = ScriptedModel([*tasks, say("Done.")])
    writer: Agent[Any, Any] = Agent("writer", model=outer, tools=[researcher])
    async with memory_runtime(agents=[writer]) as runtime:
        reply = await runtime.chat("Go", agent=writer)
    assert [each.content for each in inner.requests[0].messages] == ["Find tea for [card]"]
    assert reply.output == "Done."
    assert "the agent researcher failed: Not that." in outer.requests[2].messages[-1].content


@pytest.mark.parametrize(
    ("action", "agent", "runs", "asks"),
    [
        (Action.DENY, "writer", 0, False),
        (Action.DENY, "researcher", 0, False),
        (Action.DENY, "other", 1, True),
        (Action.ASK, "writer", 1, True),
        (Action.ALLOW, "researcher", 1, False),
        # The tool asks by itself: what the writer is allowed is no grant for the researcher.
        (Action.ALLOW, "writer", 1, True),
    ],
)
async def test_a_rule_for_an_agent_holds_for_those_that_work_for_it(
    action: Action, agent: str, runs: int, *, asks: bool
) -> None:
    pay = Act("pay", requires_approval=True)
    rules = [Rule(tool="pay", action=action, agent=agent)]
    async with memory_runtime(agents=[team(pay, [], [])], rules=rules) as runtime:
        reply = await runtime.chat("Go", agent="writer")
        assert bool(reply.questions) is asks
        if asks:
            reply = await runtime.approve(reply)
    assert (reply.output, len(pay.runs)) == ("Done.", runs)


# ---- the tool `subagent` ----


@pytest.mark.parametrize(
    ("options", "runs"),
    [
        ({}, 1),
        ({"hooks": [Guard("outer", [], Refuse("No."))]}, 0),
        ({"settings": ChatSettings(tool_permissions={"pay": "deny"})}, 0),
        ({"profile": AgentProfile(access=Access(read=("docs/**",)))}, 1),
    ],
    ids=["free", "hooks", "permissions", "access"],
)
async def test_a_subagent_may_do_nothing_that_its_caller_must_not(
    options: dict[str, Any], runs: int
) -> None:
    seen: list[Access] = []

    async def look(input: Any, invocation: Any) -> str:
        seen.append(invocation.caller.access)
        return "seen"

    pay = Act("pay", look)
    inner = [call("pay", n=1), finish("done")]
    outer = [call("subagent", agent="payer", task="Pay"), say("Done.")]

    def answer(request: ModelRequest) -> ScriptedReply:
        is_session = any(tool.name == "finish" for tool in request.tools)
        return (inner if is_session else outer).pop(0)

    writer: Agent[Any, Any] = Agent("writer", **options)
    agents = [writer, worker("payer", tools=("pay",))]
    async with memory_runtime(
        model=ScriptedModel(answer), tools=[*SUBAGENT, pay], agents=agents
    ) as runtime:
        reply = await runtime.chat("Go", agent="writer")
    assert (reply.output, len(pay.runs)) == ("Done.", runs)
    assert [access.read for access in seen] == [writer.profile.access.read] * runs


# ---- crashes ----

WRITES = 8


async def tell(log: DyingLog) -> tuple[Act, list[str]]:
    """Run a task in which hooks of both agents see a call, in as many lives as it takes."""
    pay, asked = Act("pay"), list[str]()
    inner = ScriptedModel({"Find": [call("pay", n=1), say("Paid.")]})
    researcher: Agent[Any, Any] = Agent(
        "researcher", model=inner, tools=[pay], hooks=[Guard("inner", asked, {"n": 3})]
    )
    outer = ScriptedModel({"Write": [ASK, say("Done.")]})
    writer: Agent[Any, Any] = Agent(
        "assistant", model=outer, tools=[researcher], hooks=[Guard("outer", asked, {"n": 2})]
    )
    reply = await outlived(log, "Write", agents=[writer])
    assert reply.content == "Done."
    return pay, asked


@pytest.mark.parametrize("before", [False, True], ids=["after", "before"])
@pytest.mark.parametrize("writes", range(1, WRITES + 1))
async def test_decisions_of_both_agents_survive_a_crash_at_any_write(
    writes: int, before: bool
) -> None:
    clock = FakeClock()
    pay, asked = await tell(DyingLog(clock, writes=writes, before=before))
    assert [each for each in pay.runs if each != {"n": 3}] == []
    assert "inner of researcher: pay {'n': 2}" in asked


async def test_every_write_of_the_story_is_tried() -> None:
    clock = FakeClock()
    log = DyingLog(clock, writes=-1, before=False)
    await tell(log)
    assert log.writes == WRITES
