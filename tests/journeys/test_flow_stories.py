"""The worked examples of the page (section 9.3), with real agents and a real shell."""

import asyncio
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from penstock.core.envelope import Json
from penstock.core.events.events import Record
from penstock.core.events.flow_events import FlowNotified, Outcome, StepSettled, StepStarted
from penstock.core.ids import LogId
from penstock.models.model import ModelRequest
from penstock.models.scripted import ScriptedModel, ScriptedReply, fail, slow
from penstock.testing.clock import FakeClock
from penstock.testing.flows import MemoryFlows
from penstock.testing.runtime import MemoryStorage, memory_runtime
from penstock.tools.resources import ProjectFolder
from penstock.tools.shell import ShellSettings
from tests.kit.flows import HEAD, RUN, finish, see_through, told_in, worker
from tests.kit.worked_examples import (
    SUITES,
    W1,
    W2,
    W3,
    W4,
    W5,
    W5_END,
    W6,
    W7,
    W8,
    W9,
    W10,
    W11,
)

pytestmark = pytest.mark.programs
NAMED = re.compile(r"id: ([\w-]+), agent: \w+")
SPEAKER = re.compile(r"You are ([\w-]+)\.")
ON = ShellSettings(is_on=True, is_enclosed=False)
SOFT, HARD = finish("no", status="error"), fail(401, "no key")
START_DELAY = 0.01
"""How much later a step ends that started later, of steps of equal length."""


@dataclass(kw_only=True)
class Example:
    """A worked example, and what its agents and people do."""

    flow: str
    story: str
    lasts: Mapping[str, int] = field(default_factory=dict)
    says: Mapping[str, ScriptedReply] = field(default_factory=dict)
    """By step, or by `STEP/VISIT`."""
    answer: Any = None
    most: int = 4
    make: str = "true"


@dataclass
class Told:
    """What came of a run."""

    result: Json
    records: Sequence[Record]
    requests: Mapping[str, list[ModelRequest]]
    iterations: list[Mapping[str, Any]]

    def tasks(self, step_id: str) -> list[str]:
        """Return what the agent of a step was told to do, visit by visit."""
        contents = [each.messages[0].content for each in self.requests[step_id]]
        return [each.removeprefix("Task: ") for each in contents]


EXAMPLES = {
    "W1": Example(
        flow=W1,
        lasts={"web": 3},
        story="+web/1 +code/1 -code/1 -web/1 +report/1 -report/1 success",
    ),
    "W2": Example(
        flow=W2,
        lasts={"a": 5},
        most=2,
        story="+a/1 +b/1 -b/1 +c/1 -c/1 +d/1 -d/1 -a/1 success",
    ),
    "W3": Example(
        flow=W3,
        story="+plan/1 -plan/1 +build/1 -build/1 +docs/1 +notes/1 -docs/1 +check/1 -notes/1 "
        "-check/1 skip repair (flow_ended) success",
    ),
    "W3, build exits 1": Example(
        flow=W3,
        make="exit 1",
        story="+plan/1 -plan/1 +build/1 !build/1 jump repair skip docs, notes, check (jumped_over) "
        "+repair/1 -repair/1 success",
    ),
    "W4": Example(
        flow=W4,
        answer="Quick",
        story="+choose/1 -choose/1 jump quick skip deep (not_on_branch) +quick/1 -quick/1 "
        "+report/1 -report/1 success",
    ),
    "W5": Example(
        flow=W5,
        says={"route": finish("s", branch="small")},
        story="+route/1 -route/1 jump patch +patch/1 -patch/1 +lint/1 -lint/1 "
        "+redesign/1 -redesign/1 success",
    ),
    "W5, end": Example(
        flow=W5_END,
        says={"route": finish("s", branch="small")},
        story="+route/1 -route/1 jump patch +patch/1 -patch/1 +lint/1 -lint/1 "
        "skip redesign (flow_ended) success",
    ),
    "W6": Example(
        flow=W6,
        says={"again": finish("more", branch="loop")},
        story="+gather/1 -gather/1 +draft/1 -draft/1 +review/1 -review/1 +again/1 -again/1 "
        "jump draft +draft/2 -draft/2 +review/2 -review/2 +again/2 -again/2 jump draft "
        "+draft/3 -draft/3 +review/3 -review/3 +again/3 -again/3 jump publish "
        "+publish/1 -publish/1 success",
    ),
    "W7": Example(
        flow=W7.replace("agent: fixer", 'agent: fixer, task: "${{loop.enough.iteration}}"'),
        says={
            "enough/1": finish("no", branch="loop"),
            "enough/2": finish("yes", branch="exit"),
        },
        story="+verify/1 -verify/1 +enough/1 -enough/1 jump fix skip done (not_on_branch) +fix/1 "
        "-fix/1 jump verify +verify/2 -verify/2 +enough/2 -enough/2 jump done +done/1 -done/1 "
        "success",
    ),
    "W8, nothing fails": Example(
        flow=W8,
        lasts={"side": 3},
        story="+fetch/1 +side/1 -fetch/1 +parse/1 -parse/1 -side/1 +sum/1 -sum/1 "
        "skip cached (flow_ended) success",
    ),
    "W8, fetch soft": Example(
        flow=W8,
        lasts={"side": 3},
        says={"fetch": SOFT},
        story="+fetch/1 +side/1 !fetch/1 -side/1 jump cached skip parse, sum (jumped_over) "
        "+cached/1 -cached/1 success",
    ),
    "W8, side soft": Example(
        flow=W8,
        lasts={"side": 3, "parse": 5},
        says={"side": SOFT},
        story="+fetch/1 +side/1 -fetch/1 +parse/1 !side/1 ~parse/1 skip sum, cached (flow_ended) "
        "error",
    ),
    "W8, fetch hard": Example(
        flow=W8,
        lasts={"side": 3},
        says={"fetch": HARD},
        story="+fetch/1 +side/1 !fetch/1 ~side/1 skip parse, sum, cached (flow_ended) error",
    ),
    "W9": Example(
        flow=W9,
        says={"gate": finish("more", branch="redo")},
        story="+make/1 -make/1 +gate/1 -gate/1 jump make +make/2 -make/2 +gate/2 -gate/2 "
        "+salvage/1 -salvage/1 +publish/1 -publish/1 success",
    ),
    "W9, good at once": Example(
        flow=W9,
        says={"gate": finish("fine", branch="good")},
        story="+make/1 -make/1 +gate/1 -gate/1 jump publish skip salvage (not_on_branch) "
        "+publish/1 -publish/1 success",
    ),
    "W10": Example(
        flow=W10,
        answer=["Load", "Unit"],
        story="+which/1 -which/1 jump unit, load +unit/1 -unit/1 skip web (jumped_over) "
        "+load/1 -load/1 jump report +report/1 -report/1 success",
    ),
    "W11": Example(
        flow=W11,
        answer="New",
        story="+triage/1 -triage/1 jump explore skip repair (not_on_branch) +explore/1 -explore/1 "
        "jump repair +repair/1 -repair/1 success",
    ),
}


async def seen(example: Example, folder: Path) -> Told:
    """Run an example on a clock of its own."""
    clock, requests = FakeClock(), defaultdict[str, list[ModelRequest]](list)

    def reply(request: ModelRequest) -> ScriptedReply:
        result = SPEAKER.search(request.system)
        assert result is not None
        step_id = result[1]
        requests[step_id].append(request)
        visit = f"{step_id}/{len(requests[step_id])}"
        number = sum(map(len, requests.values()))
        takes = example.lasts.get(step_id, 1) + number * START_DELAY
        prompts = example.says.get(visit, example.says.get(step_id, finish(f"{step_id} said")))
        return slow(takes) + prompts

    place = MemoryStorage(clock=clock, flows=_flows(example))
    place.project = ProjectFolder(root=folder, shell=ON)
    agents = [worker(name) for name in ("sum", "look", *NAMED.findall(example.flow))]
    model = ScriptedModel(reply, clock=clock)
    async with memory_runtime(model=model, agents=agents, place=place) as runtime:
        run = asyncio.create_task(see_through(runtime, {"value": example.answer}, task="the task"))
        while not run.done():
            await clock.elapse(1)
        envelope = (await run).envelope
        assert envelope is not None
        assert envelope.output is not None
        iterations = await told_in(runtime, "flow_loop_iteration")
        records = await runtime.parts.storage.log.read(LogId(RUN))
    return Told(envelope.output, records, requests, iterations)


def _flows(example: Example) -> MemoryFlows:
    """Return the flow, each of its steps with an agent of its own, and those inside."""
    text = NAMED.sub(r"id: \1, agent: \1", example.flow)
    text = re.sub(r"command: make( lint)?", f"command: '{example.make}'", text)
    inside = {name: NAMED.sub(r"id: \1, agent: \1", each) for name, each in SUITES.items()}
    head = f"{HEAD}max_concurrent: {example.most}\nsteps:\n"
    return MemoryFlows({"flows/demo.yaml": head + text, **inside})


def story_of(told: Told) -> str:
    """Return what happened in the words of the page."""
    collected: list[str] = []
    for record in told.records:
        match record.event:
            case StepStarted(step_id=step_id, visit=visit) if _is_own(record):
                collected.append(f"+{step_id}/{visit}")
            case StepSettled(step_id=step_id, visit=visit, outcome=outcome) if _is_own(record):
                collected.append(f"{'-' if outcome is Outcome.SUCCESS else '!'}{step_id}/{visit}")
            case FlowNotified(kind=kind, body=body) if str(record.path) == RUN:
                _tell(collected, kind, body)
            case _:
                pass
    return " ".join([*collected, told.result["status"]])


def _is_own(record: Record) -> bool:
    return (record.path or "").count("/") == 2


def _tell(said: list[str], kind: str, body: Mapping[str, Any]) -> None:
    if kind == "flow_jump":
        said.append(f"jump {', '.join(body['to'])}")
    elif kind == "flow_step_aborted":
        said.append(f"~{body['stepId']}/1")
    elif kind == "flow_step_skipped":
        why = f" ({body['reason']})"
        if said[-1].startswith("skip") and said[-1].endswith(why):
            said[-1] = f"{said[-1].removesuffix(why)}, {body['stepId']}{why}"
        else:
            said.append(f"skip {body['stepId']}{why}")


@pytest.mark.parametrize("example", EXAMPLES.values(), ids=EXAMPLES)
async def test_a_worked_example_runs_as_documented(example: Example, tmp_path: Path) -> None:
    """9.3: starts, ends, failures, jumps and skips, in this order."""
    assert story_of(await seen(example, tmp_path)) == example.story


async def test_the_summaries_of_both_are_in_the_report_of_w1(tmp_path: Path) -> None:
    result = await seen(EXAMPLES["W1"], tmp_path)
    assert result.tasks("report") == ["web said, code said"]


async def test_a_build_that_exits_1_has_an_error_as_its_result(tmp_path: Path) -> None:
    """W3: results.build.status is error."""
    build = (await seen(EXAMPLES["W3, build exits 1"], tmp_path)).result["results"]["build"]
    assert (build["status"], build["summary"], build["exitCode"]) == ("error", "exit code 1", 1)


async def test_w4_reports_the_quick_path_without_warnings(
    tmp_path: Path,
) -> None:
    """W4: the report's task is the summary of quick, without a warning (V8)."""
    result = await seen(EXAMPLES["W4"], tmp_path)
    assert result.tasks("report") == ["quick said"]
    assert result.result["warnings"] == []


async def test_each_draft_of_w6_reads_the_earlier_results(tmp_path: Path) -> None:
    """W6: draft/1 has an empty review and one flow_warning, draft/2 has that of review/1."""
    result = await seen(EXAMPLES["W6"], tmp_path)
    assert result.tasks("draft") == ["gather said ", *["gather said review said"] * 2]
    assert result.result["warnings"] == ["${{result.review.summary}} names nothing"]
    assert result.tasks("again") == [f"Pass {n}\n\nThis is iteration {n} of 2." for n in (1, 2)]
    rounds = [(each["iteration"], each["forced"]) for each in result.iterations]
    assert rounds == [(1, False), (2, False), (3, True)]


async def test_the_body_of_the_loop_of_w7_sees_its_first_round(tmp_path: Path) -> None:
    """W7: fix/1 sees iteration 1."""
    assert (await seen(EXAMPLES["W7"], tmp_path)).tasks("fix") == ["1"]


async def test_the_tries_of_w9_are_counted(tmp_path: Path) -> None:
    result = await seen(EXAMPLES["W9"], tmp_path)
    assert result.tasks("gate") == ["Try 1 of 1", "Try 2 of 1"]
    assert [each["forced"] for each in result.iterations] == [False, True]


async def test_the_results_of_w10_are_those_of_each_suite(tmp_path: Path) -> None:
    """W10: results unit, unit.sum, load, load.sum, no flat sum."""
    results = (await seen(EXAMPLES["W10"], tmp_path)).result["results"]
    ran = [name for name, each in results.items() if each["status"] == "complete"]
    assert set(ran) == {"which", "unit", "unit.sum", "load", "load.sum", "report"}
    assert "sum" not in results


async def test_the_section_of_the_fork_of_w11_is_for_its_direct_target(tmp_path: Path) -> None:
    """W11: the fork section is in the prompt of explore/1, not of repair/1."""
    result = await seen(EXAMPLES["W11"], tmp_path)
    systems = [result.requests[each][0].system for each in ("explore", "repair")]
    assert ["This step was chosen at the fork triage." in each for each in systems] == [True, False]
