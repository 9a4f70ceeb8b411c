"""The planner: the worked examples of the page, and what is the same however a run is folded."""

import heapq
import re
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from penstock.flows.definition import (
    AgentDecision,
    AgentStep,
    Flow,
    FlowRef,
    Fork,
    LoopDecision,
    Shell,
    Step,
)
from penstock.flows.plan import Aborted, Jumped, Notice, Outcome, Over, Plan, RunStatus, Skipped

Answers = Mapping[str, Any]
"""What a visit `step/n`, or every visit of a step, comes to: an outcome, or a router's targets."""


def agent(step_id: str, *blocked_by: str, **fields: Any) -> Step:
    return AgentStep(step_id=step_id, agent="scout", blocked_by=blocked_by, **fields)


def shell(step_id: str, **fields: Any) -> Step:
    return Shell(step_id=step_id, command="make", **fields)


def ref(step_id: str, **fields: Any) -> Step:
    return FlowRef(step_id=step_id, path=f"{step_id}.yaml", **fields)


def fork(step_id: str, *targets: str) -> Step:
    branches = {each: each for each in targets}
    return Fork(step_id=step_id, question="Which?", branches=branches, options=targets)


def decision(step_id: str, *targets: str) -> Step:
    branches = {each: each for each in targets}
    return AgentDecision(step_id=step_id, agent="judge", task="Which?", branches=branches)


def loop(step_id: str, again: str, out: str) -> Step:
    return LoopDecision(
        step_id=step_id, agent="judge", task="Again?", loop_target=again, exit_target=out
    )


def flow(*steps: Any, max_concurrent: int = 4) -> Flow:
    return Flow(name="demo", description="d", steps=tuple(steps), max_concurrent=max_concurrent)


W1 = (agent("web"), agent("code"), agent("report", "web", "code"))
W2 = tuple(agent(each) for each in "abcd")
W3 = (
    agent("plan"),
    shell("build", on_error="repair"),
    agent("docs", "plan"),
    agent("notes"),
    agent("check", "docs", is_last=True),
    agent("repair"),
)
W4 = (
    fork("choose", "quick", "deep"),
    agent("quick"),
    agent("deep"),
    agent("report", "quick", "deep"),
)
W5 = (
    decision("route", "patch", "redesign"),
    agent("patch"),
    shell("lint", on_error="redesign"),
    agent("redesign"),
)
W5_END = (*W5[:2], shell("lint", on_error="redesign", is_last=True), W5[3])
W6 = (
    agent("gather"),
    agent("draft", "gather"),
    agent("review", "draft"),
    loop("again", "draft", "publish"),
    agent("publish"),
)
W7 = (
    agent("verify"),
    loop("enough", "fix", "done"),
    agent("fix", on_complete="verify"),
    agent("done"),
)
W8 = (
    agent("fetch", on_error="cached"),
    agent("parse", "fetch"),
    agent("side"),
    agent("sum", "parse", "side", is_last=True),
    agent("cached"),
)
W9 = (
    agent("make"),
    decision("gate", "make", "publish"),
    agent("salvage"),
    agent("publish", "salvage"),
)
W10 = (
    fork("which", "unit", "web", "load"),
    ref("unit", on_complete="report"),
    ref("web", on_complete="report"),
    ref("load", on_complete="report"),
    agent("report"),
)
W11 = (fork("triage", "repair", "explore"), agent("explore", on_complete="repair"), agent("repair"))
SOFT, HARD = Outcome.SOFT, Outcome.HARD

EXAMPLES: list[tuple[str, tuple[Any, ...], Answers, Mapping[str, int], str]] = [
    (
        "W1: two in parallel, one join",
        W1,
        {},
        {"web": 3},
        "+web/1 +code/1 -code/1 -web/1 +report/1 -report/1 success",
    ),
    (
        "W3: separators, blockedBy across segments, end",
        W3,
        {},
        {},
        (
            "+plan/1 -plan/1 +build/1 -build/1 +docs/1 +notes/1 -docs/1 +check/1 -notes/1 -check/1 "
            "skip repair (flow_ended) success"
        ),
    ),
    (
        "W3: build exits 1",
        W3,
        {"build": SOFT},
        {},
        (
            "+plan/1 -plan/1 +build/1 !build/1 jump repair skip docs, notes, check (jumped_over) "
            "+repair/1 -repair/1 success"
        ),
    ),
    (
        "W4: branches and a join in one segment",
        W4,
        {"choose": ["quick"]},
        {},
        (
            "+choose/1 -choose/1 jump quick skip deep (not_on_branch) +quick/1 -quick/1 +report/1 "
            "-report/1 success"
        ),
    ),
    (
        "W5: branches in different segments",
        W5,
        {"route": ["patch"]},
        {},
        (
            "+route/1 -route/1 jump patch +patch/1 -patch/1 +lint/1 -lint/1 +redesign/1 -redesign/1 "
            "success"
        ),
    ),
    (
        "W5: with end on lint",
        W5_END,
        {"route": ["patch"]},
        {},
        (
            "+route/1 -route/1 jump patch +patch/1 -patch/1 +lint/1 -lint/1 skip redesign (flow_ended) "
            "success"
        ),
    ),
    (
        "W6: a loop back into the middle of a segment",
        W6,
        {"again/1": ["draft"], "again/2": ["draft"], "again/3": ["publish"]},
        {},
        (
            "+gather/1 -gather/1 +draft/1 -draft/1 +review/1 -review/1 +again/1 -again/1 jump draft "
            "+draft/2 -draft/2 +review/2 -review/2 +again/2 -again/2 jump draft +draft/3 -draft/3 "
            "+review/3 -review/3 +again/3 -again/3 jump publish +publish/1 -publish/1 success"
        ),
    ),
    (
        "W7: the loop body stands after the decision",
        W7,
        {"enough/1": ["fix"], "enough/2": ["done"]},
        {},
        (
            "+verify/1 -verify/1 +enough/1 -enough/1 jump fix skip done (not_on_branch) +fix/1 -fix/1 "
            "jump verify +verify/2 -verify/2 +enough/2 -enough/2 jump done +done/1 -done/1 success"
        ),
    ),
    (
        "W8: nothing fails",
        W8,
        {},
        {"side": 3},
        (
            "+fetch/1 +side/1 -fetch/1 +parse/1 -parse/1 -side/1 +sum/1 -sum/1 "
            "skip cached (flow_ended) success"
        ),
    ),
    (
        "W8: fetch soft",
        W8,
        {"fetch": SOFT},
        {"side": 3},
        (
            "+fetch/1 +side/1 !fetch/1 -side/1 jump cached skip parse, sum (jumped_over) +cached/1 "
            "-cached/1 success"
        ),
    ),
    (
        "W8: side soft while parse runs",
        W8,
        {"side": SOFT},
        {"side": 3, "parse": 5},
        "+fetch/1 +side/1 -fetch/1 +parse/1 !side/1 ~parse/1 skip sum, cached (flow_ended) error",
    ),
    (
        "W8: fetch hard, its on_error does not help",
        W8,
        {"fetch": HARD},
        {"side": 3},
        "+fetch/1 +side/1 !fetch/1 ~side/1 skip parse, sum, cached (flow_ended) error",
    ),
    (
        "W9: a back edge, then forced to fall through",
        W9,
        {"gate/1": ["make"], "gate/2": []},
        {},
        (
            "+make/1 -make/1 +gate/1 -gate/1 jump make +make/2 -make/2 +gate/2 -gate/2 +salvage/1 "
            "-salvage/1 +publish/1 -publish/1 success"
        ),
    ),
    (
        "W9: good at once",
        W9,
        {"gate": ["publish"]},
        {},
        (
            "+make/1 -make/1 +gate/1 -gate/1 jump publish skip salvage (not_on_branch) +publish/1 "
            "-publish/1 success"
        ),
    ),
    (
        "W10: several answers, targets in several segments",
        W10,
        {"which": ["load", "unit"]},
        {},
        (
            "+which/1 -which/1 jump unit, load +unit/1 -unit/1 skip web (jumped_over) +load/1 -load/1 "
            "jump report +report/1 -report/1 success"
        ),
    ),
    (
        "W11: a jump inside one segment",
        W11,
        {"triage": ["explore"]},
        {},
        (
            "+triage/1 -triage/1 jump explore skip repair (not_on_branch) +explore/1 -explore/1 "
            "jump repair +repair/1 -repair/1 success"
        ),
    ),
]


def run(plan: Plan, answers: Answers, lasts: Mapping[str, int]) -> str:
    """Run a plan on a clock of its own; returns what happened, in the words of the examples."""
    said: list[str] = []
    ends: list[tuple[int, int, str]] = []
    now = begun = 0
    while plan.status is None:
        for step_id in plan.ready():
            begun += 1
            said.append(f"+{step_id}/{plan.start(step_id)}")
            heapq.heappush(ends, (now + lasts.get(step_id, 1), begun, step_id))
        now, _, step_id = heapq.heappop(ends)
        visit = f"{step_id}/{plan.visits[step_id]}"
        answer = answers.get(visit, answers.get(step_id, []))
        outcome = answer if isinstance(answer, Outcome) else Outcome.SUCCESS
        said.append(f"{'-' if outcome is Outcome.SUCCESS else '!'}{visit}")
        notices = plan.settle(step_id, outcome, [] if isinstance(answer, Outcome) else answer)
        said.extend(tell(plan, notices))
    return " ".join(said)


def tell(plan: Plan, notices: Sequence[Notice]) -> list[str]:
    said: list[str] = []
    for notice in notices:
        match notice:
            case Jumped(targets=targets):
                ordered = sorted(targets, key=list(plan.visits).index)
                said.append(f"jump {', '.join(ordered)}")
            case Aborted(step_id=step_id):
                said.append(f"~{step_id}/{plan.visits[step_id]}")
            case Skipped(step_id=step_id, why=why) if said and said[-1].endswith(f"({why})"):
                said[-1] = said[-1].replace(f" ({why})", f", {step_id} ({why})")
            case Skipped(step_id=step_id, why=why):
                said.append(f"skip {step_id} ({why})")
            case Over(status=status):
                said.append(status)
    return said


@pytest.mark.parametrize(
    ("steps", "answers", "lasts", "wanted"),
    [each[1:] for each in EXAMPLES],
    ids=[each[0] for each in EXAMPLES],
)
def test_every_worked_example_runs_as_it_says(
    steps: tuple[Any, ...], answers: Answers, lasts: Mapping[str, int], wanted: str
) -> None:
    assert run(Plan(flow(*steps)), answers, lasts) == wanted


def test_the_next_step_starts_as_soon_as_one_is_over() -> None:
    """W2: no waves."""
    wanted = "+a/1 +b/1 -b/1 +c/1 -c/1 +d/1 -d/1 -a/1 success"
    assert run(Plan(flow(*W2, max_concurrent=2)), {}, {"a": 5}) == wanted


@pytest.mark.parametrize("example", EXAMPLES, ids=[each[0] for each in EXAMPLES])
def test_a_fold_of_what_happened_is_the_plan_that_made_it_happen(example: Any) -> None:
    """A plan that is fed the starts and outcomes of another stands where that one stands."""
    _, steps, answers, lasts, _ = example
    first, again = Plan(flow(*steps)), Plan(flow(*steps))
    for what, step_id, visit in re.findall(r"([-+!])(\w+)/(\d+)", run(first, answers, lasts)):
        if what == "+":
            again.start(step_id)
            continue
        answer = answers.get(f"{step_id}/{visit}", answers.get(step_id, []))
        outcome = answer if isinstance(answer, Outcome) else Outcome.SUCCESS
        again.settle(step_id, outcome, [] if isinstance(answer, Outcome) else answer)
    assert (again.status, again.visits, again.skipped) == (
        first.status,
        first.visits,
        first.skipped,
    )


def test_a_step_that_waits_gives_its_place_back() -> None:
    """P4: A step that waits for a person, or for its next try, gives its place back."""
    plan = Plan(flow(*W2, max_concurrent=1))
    plan.start("a")
    assert plan.ready() == []
    assert plan.ready(waiting={"a"}) == ["b"]


def test_a_next_try_is_a_visit_of_a_step_that_still_runs() -> None:
    plan = Plan(flow(agent("a"), agent("b", "a")))
    assert [plan.start("a"), plan.start("a")] == [1, 2]
    assert plan.ready() == []
    plan.settle("a", Outcome.SUCCESS)
    assert plan.ready() == ["b"]


def test_on_error_beats_on_complete_and_the_file_decides_between_equals() -> None:
    """P10: on_error before branch before on_complete, then file order."""
    steps = [
        agent("a", on_complete="x"),
        agent("b", on_error="y"),
        agent("c", on_error="z"),
        shell("x"),
        shell("y"),
        shell("z", is_last=True),
    ]
    said = run(Plan(flow(*steps)), {"b": SOFT, "c": SOFT}, {"c": 0, "b": 2})
    assert "jump y" in said
    assert "jump z" not in said


def test_no_new_step_starts_once_a_jump_is_asked_for() -> None:
    plan = Plan(flow(agent("a", on_complete="out"), *W2[1:], shell("out"), max_concurrent=2))
    plan.start("a")
    plan.start("b")
    assert plan.settle("a", Outcome.SUCCESS) == []
    assert plan.ready() == []
    assert plan.settle("b", Outcome.SUCCESS)[0] == Jumped("a", ("out",), "on_complete")


def test_whoever_aborts_cuts_what_runs_and_skips_the_rest() -> None:
    plan = Plan(flow(*W1))
    plan.start("web")
    told = plan.abort()
    assert tell(plan, told) == ["~web/1", "skip code, report (flow_ended)", "aborted"]
    assert plan.status is RunStatus.ABORTED
    assert plan.ready() == []


def test_two_options_with_one_target_are_one_entry() -> None:
    plan = Plan(flow(fork("f", "a", "b"), agent("a"), agent("b")))
    plan.start("f")
    plan.settle("f", Outcome.SUCCESS, ["b", "b"])
    assert plan.ready() == ["b"]


def test_targets_in_one_segment_are_entered_together() -> None:
    plan = Plan(flow(fork("f", "a", "b", "c"), agent("a"), agent("b"), agent("c")))
    plan.start("f")
    plan.settle("f", Outcome.SUCCESS, ["c", "a"])
    assert plan.ready() == ["a", "c"]
    assert set(plan.skipped) == {"b"}


def test_a_target_that_was_visited_meanwhile_is_not_jumped_to_again() -> None:
    """Until the last target is over, `on_complete` jumps wait; one that was run is not repeated."""
    steps = [fork("f", "a", "b"), ref("a", on_complete="b"), ref("b"), agent("end")]
    said = run(Plan(flow(*steps)), {"f": ["a", "b"]}, {})
    assert said == ("+f/1 -f/1 jump a, b +a/1 -a/1 +b/1 -b/1 +end/1 -end/1 success")


def test_a_thousand_steps_are_planned_without_looking_at_all_of_them_each_time() -> None:
    chain = [agent("s0"), *(agent(f"s{n}", f"s{n - 1}") for n in range(1, 1_000))]
    plan = Plan(flow(*chain))
    for number in range(1_000):
        assert plan.ready() == [f"s{number}"]
        plan.start(f"s{number}")
        plan.settle(f"s{number}", Outcome.SUCCESS)
    assert plan.status is RunStatus.SUCCESS
