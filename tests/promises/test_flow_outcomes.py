"""How a step fails, word by word: `source`, and whether `on_error` may catch it (section 10)."""

import asyncio
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from penstock.chat.requests import NewRun
from penstock.core.call_errors import ToolFailed
from penstock.core.events.flow_events import Outcome, StepSettled, StepStatus
from penstock.core.ids import LogId
from penstock.core.limits import Limits
from penstock.models.scripted import ScriptedModel, ScriptedReply, call, fail, say
from penstock.testing.clock import FakeClock
from penstock.testing.runtime import MemoryStorage, memory_runtime
from penstock.tools.invocation import Invocation
from penstock.tools.resources import ProjectFolder
from penstock.tools.shell import ShellSettings
from penstock.tools.tool import Tool
from tests.kit.flows import RUN, WORKERS, finish, flows_of, run_in, steps, worker
from tests.kit.tools import Act, raising

pytestmark = pytest.mark.programs
SOFT, HARD = Outcome.SOFT, Outcome.HARD
ON = ShellSettings(is_on=True, is_enclosed=False)
TOOLS = (Act("look"), Act("stops", raising(ToolFailed("no more", continuable=False))))
CREW = [
    *WORKERS,
    worker("short", tools=("look", "stops"), max_turns=1),
    worker("dawdler", tools=("dawdle",)),
]


async def settled(
    texts: Mapping[str, str],
    *replies: ScriptedReply,
    place: MemoryStorage | None = None,
    tools: Iterable[Tool] = TOOLS,
) -> list[StepSettled]:
    """Run the flow `demo`; returns how its visits ended."""
    place = place or MemoryStorage()
    place.flows = flows_of(**texts)
    model = ScriptedModel(list(replies))
    async with memory_runtime(model=model, agents=CREW, tools=tools, place=place) as runtime:
        await run_in(runtime)
    return await visits_of(place)


async def visits_of(place: MemoryStorage) -> list[StepSettled]:
    """Return how the visits of the run ended."""
    events = [each.event for each in await place.log.read(LogId(RUN))]
    return [each for each in events if isinstance(each, StepSettled)]


FORK = "  - {id: one, question: Go?, branches: {Go: two}}\n  - {id: two, agent: scout}"
STEP = "  - {{id: one, agent: {agent}, task: t{more}}}"
DECIDES = (
    "  - {id: one, agent: judge, task: t, branches: {a: two, b: two}}\n  - {id: two, agent: scout}"
)


@pytest.mark.parametrize(
    ("text", "replies", "source", "outcome", "status"),
    [
        (
            STEP.format(agent="scout", more=""),
            [finish(status="error")],
            "agent_finish_error",
            SOFT,
            "error",
        ),
        (
            STEP.format(agent="scout", more=""),
            [finish(status="blocked")],
            "agent_finish_error",
            SOFT,
            "blocked",
        ),
        (STEP.format(agent="scout", more=""), [say("Hm.")] * 3, "agent_no_finish", SOFT, "error"),
        (
            STEP.format(agent="scout", more=""),
            [call("finish")] * 3,
            "finish_invalid",
            SOFT,
            "error",
        ),
        (DECIDES, [finish(branch="c")] * 3, "off_map_branch", HARD, "error"),
        (DECIDES, [finish()] * 3, "off_map_branch", HARD, "error"),
        (STEP.format(agent="scout", more=""), [fail(400)], "api_error", HARD, "error"),
        (
            STEP.format(agent="scout", more=", model: absent"),
            [],
            "model_unresolved",
            SOFT,
            "error",
        ),
        (STEP.format(agent="nobody", more=""), [], "agent_unknown", SOFT, "error"),
        (
            STEP.format(agent="short", more=""),
            [call("look")] * 2,
            "agent_turn_limit",
            SOFT,
            "error",
        ),
        (
            STEP.format(agent="short", more=""),
            [call("stops")],
            "tool_not_continuable",
            SOFT,
            "error",
        ),
        (
            STEP.format(agent="scout", more=", inputs: {n: 'file://gone'}"),
            [],
            "input_file",
            SOFT,
            "error",
        ),
    ],
)
async def test_why_the_step_of_an_agent_failed(
    text: str, replies: list[ScriptedReply], source: str, outcome: Outcome, status: str
) -> None:
    """§10, by the table's own words."""
    ended = (await settled({"demo": steps(text)}, *replies))[0]
    assert (ended.source, ended.outcome) == (source, outcome)
    assert ended.result.status is StepStatus(status)


async def test_a_budget_that_is_used_up_ends_the_flow() -> None:
    """§10: "budget of the task tree": hard, `budget`."""
    clock = FakeClock()

    async def dawdling(input: Any, invocation: Invocation) -> Any:
        clock.advance(60)

    text, slow = steps(STEP.format(agent="dawdler", more="")), Act("dawdle", dawdling)
    place = MemoryStorage(clock=clock, limits=Limits(flow_seconds=60))
    (ended,) = await settled({"demo": text}, call("dawdle"), place=place, tools=[slow])
    assert (ended.source, ended.outcome) == ("budget", HARD)


async def test_more_visits_than_a_run_may_have_end_it() -> None:
    """§10: "visit limit": hard, `visit_limit`."""
    text = steps("  - {id: one, agent: scout, on_error: one}")
    place = MemoryStorage(limits=Limits(flow_visits=2))
    ended = await settled({"demo": text}, *[finish(status="error")] * 2, place=place)
    assert [(each.source, each.outcome) for each in ended][-1] == ("visit_limit", HARD)


@pytest.mark.parametrize(
    ("path", "sub", "replies", "source", "outcome"),
    [
        ("none.yaml", "", [], "ref_missing", SOFT),
        ("../../x.yaml", "", [], "ref_outside", HARD),
        ("demo.yaml", "", [], "ref_depth", HARD),
        ("sub.yaml", "  - {id: a, agent: scout}", [finish(status="error")], "ref_failed", SOFT),
        ("sub.yaml", "  - {id: a, agent: scout}", [fail(400)], "ref_failed", HARD),
        ("sub.yaml", "  - {id: a, agent: scout", [], "ref_failed", SOFT),
    ],
)
async def test_why_a_flow_inside_failed(
    path: str, sub: str, replies: list[ScriptedReply], source: str, outcome: Outcome
) -> None:
    """§10: no match, sub-flow failed, outside; "sub-flow depth"."""
    texts = {"demo": steps(f"  - {{id: ref, path: {path}}}")} | ({"sub": steps(sub)} if sub else {})
    ended = [each for each in await settled(texts, *replies) if each.step_id == "ref"]
    found = [(each.source, each.outcome) for each in ended]
    assert (source, outcome) in found


@pytest.mark.parametrize(
    ("fields", "source", "outcome"),
    [
        ("command: exit 3", "shell_exit", SOFT),
        ("command: kill -9 $$", "shell_exit", SOFT),
        ("command: 'cat /dev/zero', timeout: 1", "shell_timeout", SOFT),
        ("command: 'echo ${{config.big}}'", "shell_value", SOFT),
    ],
)
@pytest.mark.slow("a command is waited for until its time is over")
async def test_why_a_command_failed(
    tmp_path: Path, fields: str, source: str, outcome: Outcome
) -> None:
    """§10: "shell: not 0, signal / timeout / value too large"."""
    place = MemoryStorage()
    place.project = ProjectFolder(root=tmp_path, shell=ON)
    big = f"config: {{big: {'x' * (1 << 18)}}}\n"
    (ended,) = await settled({"demo": big + steps(f"  - {{id: sh, {fields}}}")}, place=place)
    assert (ended.source, ended.outcome) == (source, outcome)


async def test_a_command_where_the_shell_is_off_ends_the_flow(tmp_path: Path) -> None:
    """§10: "switched off": hard, `shell_off`."""
    place = MemoryStorage()
    place.project = ProjectFolder(root=tmp_path)
    texts = {"demo": "  - {id: one, path: sub.yaml}", "sub": "  - {id: sh, command: echo hi}"}
    ended, _ = await settled({name: steps(text) for name, text in texts.items()}, place=place)
    assert (ended.source, ended.outcome) == ("shell_off", HARD)


@pytest.mark.parametrize(
    ("more", "ended", "runs"),
    [("", ("interrupted", SOFT), 1), (", idempotent: true", ("", Outcome.SUCCESS), 2)],
)
async def test_an_idempotent_command_interrupted_by_a_crash_runs_again(
    tmp_path: Path, more: str, ended: tuple[str, Outcome], runs: int
) -> None:
    """§10: "a shell step … was open when the process died": soft, `interrupted`."""
    os.mkfifo(tmp_path / "begun")
    place = MemoryStorage(limits=Limits(shutdown_seconds=0.05))
    place.project = ProjectFolder(root=tmp_path, shell=ON)
    command = "echo x >> runs; test -p begun || exit 0; echo x > begun; exec sleep 60"
    place.flows = flows_of(demo=steps(f"  - {{id: sh, command: '{command}'{more}}}"))
    async with memory_runtime(place=place) as runtime:
        await runtime.start_flow(NewRun(command="demo", task="t"), task_id=RUN)
        await asyncio.to_thread((tmp_path / "begun").read_text)
    assert await visits_of(place) == []
    (tmp_path / "begun").unlink()
    async with memory_runtime(place=place) as runtime:
        await runtime.requests.wait(RUN)
    (visit,) = await visits_of(place)
    assert (visit.source, visit.outcome) == ended
    assert (tmp_path / "runs").read_text() == "x\n" * runs


async def test_a_fork_that_is_cancelled_aborts_the_run() -> None:
    """§10: "fork cancelled, run aborted": `aborted`."""
    place = MemoryStorage(flows=flows_of(demo=steps(FORK)))
    async with memory_runtime(agents=CREW, place=place) as runtime:
        await run_in(runtime)
        (asked,) = await runtime.parts.storage.projections.open_questions(LogId(RUN))
        await runtime.requests.answer(asked.question.question_id, {"cancel": True})
        reply = await runtime.requests.wait(RUN)
    (ended,) = await visits_of(place)
    assert (ended.source, ended.outcome) == ("aborted", Outcome.ABORTED)
    assert ended.result.status is StepStatus.ABORTED
    assert reply is not None
    assert reply.envelope is not None
    assert reply.envelope.output["status"] == "aborted"
