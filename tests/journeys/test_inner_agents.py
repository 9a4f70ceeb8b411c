"""Agents as tools with a real project: their skills, what they may do, and the types of inputs."""

from typing import Any

import pytest
from msgspec.structs import replace
from pydantic import BaseModel, field_validator

from penstock.agents.agent import Agent, ChatSettings
from penstock.agents.agent_profile import AgentProfile
from penstock.core.call import Effect
from penstock.core.envelope import Json
from penstock.core.events.events import SkillsSelected
from penstock.core.ids import LogId
from penstock.models.scripted import ScriptedModel, call, say
from penstock.resources.project.access import Access
from penstock.testing.clock import FakeClock
from penstock.testing.runtime import memory_runtime
from penstock.tools.invocation import Invocation
from tests.kit.dying_log import DyingLog, outlived
from tests.kit.project import ProjectFolder
from tests.kit.tools import Act
from tests.kit.visibility import write_project

ASK = call("researcher", task="Find tea")
OF_A = {"t_listed", "t_inline", "t_req"}


def tools_of(model: ScriptedModel) -> list[set[str]]:
    """Return which tools of the project's skills each request had."""
    return [
        {each.name for each in request.tools if each.name.startswith("t_")}
        for request in model.requests
    ]


def team(
    inner: ScriptedModel, outer: ScriptedModel, *, own: ChatSettings | None = None, **options: Any
) -> Agent[Any, Any]:
    """Return a writer with its own settings, whose tool is a researcher with options."""
    researcher: Agent[Any, Any] = Agent("researcher", model=inner, **options)
    return Agent("writer", model=outer, tools=[researcher], settings=own or ChatSettings())


# ---- skills ----


async def test_an_inner_agent_starts_with_its_skills(project: ProjectFolder) -> None:
    write_project(project)
    inner, outer = ScriptedModel([say("Tea.")]), ScriptedModel([ASK, say("Done.")])
    settings = ChatSettings(selected_skills=("a",))
    writer = team(inner, outer, settings=settings)
    async with project.opened(agents=[writer]) as runtime:
        await runtime.chat("Go", agent=writer)
    assert tools_of(inner) == [OF_A]
    assert "Mind skill a." in inner.requests[0].system
    assert "Mind skill" not in "".join(each.system for each in outer.requests)


async def test_a_skill_that_an_inner_agent_activates_is_its_own(project: ProjectFolder) -> None:
    """Not that of its caller, nor of another call of the same agent."""
    write_project(project)
    inner = ScriptedModel(
        [call("activate_skill", skill_id="b"), call("t_req"), say("Tea."), say("More tea.")]
    )
    outer = ScriptedModel([ASK, ASK, say("Done.")])
    writer = team(inner, outer)
    async with project.opened(agents=[writer]) as runtime:
        reply = await runtime.chat("Go", agent=writer)
        records = await runtime.parts.storage.log.read(LogId(reply.session))
    assert tools_of(inner) == [set(), {"t_req"}, {"t_req"}, set()]
    assert "Mind skill b." in inner.requests[1].messages[-1].content
    assert len({each.system for each in inner.requests}) == 1
    assert tools_of(outer) == [set()] * 3
    (selected,) = [each for each in records if isinstance(each.event, SkillsSelected)]
    assert selected.path is not None
    first, second = reply.calls
    assert [each.tool for each in first.calls] == ["activate_skill", "t_req"]
    assert (first.calls[1].output is not None, second.calls) == (True, ())


async def test_an_inner_agent_keeps_its_skills_over_a_restart(project: ProjectFolder) -> None:
    write_project(project)
    ask = call("ask_user", question="Which tea?")
    inner = ScriptedModel([call("activate_skill", skill_id="b"), ask, say("Tea.")])
    writer = team(inner, ScriptedModel([ASK, say("Done.")]))
    async with project.opened(agents=[writer]) as runtime:
        reply = await runtime.chat("Go", agent=writer)
    async with project.opened(agents=[writer]) as runtime:
        reply = await runtime.answer(reply, "Green")
    assert reply.output == "Done."
    assert tools_of(inner) == [set(), {"t_req"}, {"t_req"}]


# ---- what it may do ----


@pytest.mark.parametrize(
    ("own", "outer", "expected"),
    [
        ({}, {}, "paid"),
        ({}, {"pay": "deny"}, "hidden"),
        ({"pay": "allow"}, {"pay": "deny"}, "hidden"),
        ({"pay": "deny"}, {"pay": "allow"}, "hidden"),
        ({"pay": "allow"}, {"pay": "ask"}, "asked"),
        ({"pay": "ask"}, {"pay": "allow"}, "asked"),
        ({"pay": "ask"}, {"pay": "deny"}, "hidden"),
    ],
)
async def test_an_inner_agent_may_do_nothing_that_its_caller_must_not(
    own: dict[str, str], outer: dict[str, str], expected: str
) -> None:
    pay = Act("pay", effect=Effect.WRITE)
    inner = ScriptedModel([call("pay"), say("Paid.")])
    writer = team(
        inner,
        ScriptedModel([ASK, say("Done.")]),
        tools=[pay],
        settings=ChatSettings(tool_permissions=own),
        own=ChatSettings(tool_permissions=outer),
    )
    async with memory_runtime(agents=[writer]) as runtime:
        reply = await runtime.chat("Go", agent=writer)
        if reply.questions:
            assert [each.tool for each in reply.questions] == ["pay"]
            reply = await runtime.approve(reply)
            assert expected == "asked"
    offered = [each.name for each in inner.requests[0].tools]
    assert (len(pay.runs), offered) == ((0, []) if expected == "hidden" else (1, ["pay"]))
    assert reply.output == "Done."


@pytest.mark.parametrize(
    ("own", "readable", "writable"),
    [
        (Access(), {"docs/a.md", "docs/in/b.md"}, {"docs/in/b.md"}),
        (Access(read=("**",), write=("**",)), {"docs/a.md", "docs/in/b.md"}, {"docs/in/b.md"}),
        (Access(read=("docs/in/**", "src/**")), {"docs/in/b.md"}, {"docs/in/b.md"}),
        (Access(write=("docs/a.md", "src/**")), {"docs/a.md", "docs/in/b.md"}, set()),
        (Access(read=("src/**",), write=()), set(), set()),
    ],
)
async def test_an_inner_agent_reads_and_writes_what_both_may(
    own: Access, readable: set[str], writable: set[str]
) -> None:
    found: list[Access] = []

    async def look(input: Json, invocation: Invocation) -> str:
        found.append(invocation.caller.access)
        return "seen"

    inner = ScriptedModel([call("look"), say("Tea.")])
    own = replace(own, deny=("rm",))
    researcher: Agent[Any, Any] = Agent(
        "researcher", model=inner, tools=[Act("look", look)], profile=AgentProfile(access=own)
    )
    caller = Access(agent="writer", read=("docs/**",), write=("docs/in/**",), deny=("curl",))
    writer: Agent[Any, Any] = Agent(
        "writer",
        model=ScriptedModel([ASK, say("Done.")]),
        tools=[researcher],
        profile=AgentProfile(access=caller),
    )
    async with memory_runtime(agents=[writer]) as runtime:
        await runtime.chat("Go", agent=writer)
    (seen,) = found
    paths = ("docs/a.md", "docs/in/b.md", "src/c.py", "top.md")
    assert {each for each in paths if not seen.why_unreadable(each)} == readable
    assert {each for each in paths if not seen.why_unwritable(each)} == writable
    assert seen.deny == ("curl", "rm")


# ---- its input ----


class Query(BaseModel):
    """What is wanted."""

    task: int

    @field_validator("task")
    @classmethod
    def is_positive(cls, value: int) -> int:
        if value < 1:
            raise ValueError("must be positive")
        return value


async def test_an_input_with_a_type_is_checked_by_the_type() -> None:
    inner = ScriptedModel([say("Tea.")])
    researcher: Agent[Any, Any] = Agent("researcher", model=inner)
    outer = ScriptedModel([call("researcher", task=0), call("researcher", task=7), say("Done.")])
    writer = Agent("writer", model=outer, tools=[researcher.as_tool(input=Query)])
    async with memory_runtime(agents=[writer]) as runtime:
        reply = await runtime.chat("Go", agent=writer)
    refused, found = reply.calls
    assert (refused.status, found.output) == ("validation_error", "Tea.")
    assert "must be positive" in outer.requests[1].messages[-1].content
    assert [each.content for each in inner.requests[0].messages] == ['{"task":7}']


# ---- what each of them reads ----


async def test_results_are_clipped_by_the_settings_of_the_agent_that_reads_them() -> None:
    async def much(input: Json, invocation: Invocation) -> str:
        return "x" * 5000

    inner, outer = (
        ScriptedModel([call("look"), say("y" * 5000)]),
        ScriptedModel([ASK, say("Done.")]),
    )
    writer = team(
        inner,
        outer,
        tools=[Act("look", much)],
        settings=ChatSettings(result_max_chars=300),
        own=ChatSettings(result_max_chars=700),
    )
    async with memory_runtime(agents=[writer]) as runtime:
        await runtime.chat("Go", agent=writer)
    read = [model.requests[1].messages[-1].content for model in (inner, outer)]
    assert [len(each) for each in read] == [300, 700]
    assert all("artifact" in each for each in read)


# ---- crashes ----

WRITES = 10
"""How often the log of the story is written when no process dies."""


async def tell(log: DyingLog) -> Act:
    """Run a task of three agents inside each other, in as many lives as it takes."""
    pay = Act("pay", effect=Effect.WRITE)
    payer: Agent[Any, Any] = Agent(
        "payer", model=ScriptedModel({"Pay": [call("pay"), say("Paid.")]}), tools=[pay]
    )
    inner = ScriptedModel({"Find": [call("payer", task="Pay now"), say("Tea.")]})
    researcher: Agent[Any, Any] = Agent("researcher", model=inner, tools=[payer])
    outer = ScriptedModel({"Write": [ASK, say("Done.")]})
    writer: Agent[Any, Any] = Agent("assistant", model=outer, tools=[researcher])
    reply = await outlived(log, "Write", agents=[writer])
    assert reply.content == "Done."
    return pay


@pytest.mark.chaos
@pytest.mark.parametrize("before", [False, True], ids=["after", "before"])
@pytest.mark.parametrize("writes", range(1, WRITES + 1))
async def test_three_agents_inside_each_other_killed_at_any_write(
    writes: int, before: bool
) -> None:
    clock = FakeClock()
    pay = await tell(DyingLog(clock, writes=writes, before=before))
    assert len(pay.runs) <= 1


async def test_every_write_of_the_story_is_tried() -> None:
    clock = FakeClock()
    log = DyingLog(clock, writes=-1, before=False)
    await tell(log)
    assert log.writes == WRITES
