"""The plan: the worked examples of the page, and properties of every fold."""

import re
from collections.abc import Mapping
from typing import Any

import pytest

from penstock.core.errors import Blocked, Suspend
from penstock.core.events.flow_events import Outcome
from penstock.core.ids import QuestionId, TaskId
from penstock.core.task import Missing, MissingKind
from penstock.engine.task_state import TaskState
from penstock.flows.runs.plan import IdleSteps, Jumped, Plan, RunStatus
from tests.flows.examples import EXAMPLES, SOFT, W1, W2, Answers, agent, flow, fork, ref, shell
from tests.flows.page_plan import Dice, PagePlan, any_end, any_flow
from tests.flows.planned import run, tell


@pytest.mark.parametrize(
    ("steps", "answers", "lasts", "expected"),
    [each[1:] for each in EXAMPLES],
    ids=[each[0] for each in EXAMPLES],
)
def test_every_worked_example_runs_as_documented(
    steps: tuple[Any, ...], answers: Answers, lasts: Mapping[str, int], expected: str
) -> None:
    assert run(Plan(flow(*steps)), answers, lasts) == expected


def test_the_next_step_starts_as_soon_as_one_ends() -> None:
    """W2: no waves."""
    expected = "+a/1 +b/1 -b/1 +c/1 -c/1 +d/1 -d/1 -a/1 success"
    assert run(Plan(flow(*W2, max_concurrent=2)), {}, {"a": 5}) == expected


@pytest.mark.parametrize("example", EXAMPLES, ids=[each[0] for each in EXAMPLES])
def test_a_fold_of_the_log_equals_the_plan_that_wrote_it(example: Any) -> None:
    """A plan that folds the starts and outcomes of another is in the same state."""
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


def test_a_waiting_step_frees_its_place() -> None:
    """P4: A step that waits for a person, or for its next try, gives its place back."""
    plan = Plan(flow(*W2, max_concurrent=1))
    plan.start("a")
    assert plan.ready() == []
    assert plan.ready(waiting={"a"}) == ["b"]


def test_the_next_attempt_is_a_visit_of_a_running_step() -> None:
    plan = Plan(flow(agent("a"), agent("b", "a")))
    assert [plan.start("a"), plan.start("a")] == [1, 2]
    assert plan.ready() == []
    plan.settle("a", Outcome.SUCCESS)
    assert plan.ready() == ["b"]


def test_on_error_precedes_on_complete_and_file_order_decides_between_equals() -> None:
    """P10: on_error before branch before on_complete, then file order."""
    steps = [
        agent("a", on_complete="x"),
        agent("b", on_error="y"),
        agent("c", on_error="z"),
        shell("x"),
        shell("y"),
        shell("z", is_last=True),
    ]
    message = run(Plan(flow(*steps)), {"b": SOFT, "c": SOFT}, {"c": 0, "b": 2})
    assert "jump y" in message
    assert "jump z" not in message


def test_no_new_step_starts_once_a_jump_is_asked_for() -> None:
    plan = Plan(flow(agent("a", on_complete="out"), *W2[1:], shell("out"), max_concurrent=2))
    plan.start("a")
    plan.start("b")
    assert plan.settle("a", Outcome.SUCCESS) == []
    assert plan.ready() == []
    assert plan.settle("b", Outcome.SUCCESS)[0] == Jumped("a", ("out",), "on_complete")


def test_an_abort_cancels_running_steps_and_skips_the_rest() -> None:
    plan = Plan(flow(*W1))
    plan.start("web")
    notices = plan.abort()
    assert tell(plan, notices) == ["~web/1", "skip code, report (flow_ended)", "aborted"]
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
    """`on_complete` jumps wait until the last target has ended; one that ran is not repeated."""
    steps = [fork("f", "a", "b"), ref("a", on_complete="b"), ref("b"), agent("end")]
    message = run(Plan(flow(*steps)), {"f": ["a", "b"]}, {})
    assert message == ("+f/1 -f/1 jump a, b +a/1 -a/1 +b/1 -b/1 +end/1 -end/1 success")


def test_a_thousand_steps_are_planned_without_a_scan_of_all_steps() -> None:
    chain = [agent("s0"), *(agent(f"s{n}", f"s{n - 1}") for n in range(1, 1_000))]
    plan = Plan(flow(*chain))
    for number in range(1_000):
        assert plan.ready() == [f"s{number}"]
        plan.start(f"s{number}")
        plan.settle(f"s{number}", Outcome.SUCCESS)
    assert plan.status is RunStatus.SUCCESS


@pytest.mark.parametrize("seed", range(8))
def test_any_flow_is_planned_as_the_page_describes(seed: int) -> None:
    """Section 9.2, held against its own lines: what starts, in which order, and what follows."""
    dice = Dice(seed)
    for _ in range(25):
        flow = any_flow(dice)
        page, plan = PagePlan(flow), Plan(flow)
        for _ in range(60):
            start = page.next()
            assert plan.ready() == start
            assert [plan.start(each) for each in start] == [page.start(each) for each in start]
            if page.status is not None:
                break
            step = flow.by_id[dice.pick(page.running)]
            outcome, targets = any_end(dice, step)
            message = [
                each
                for one in plan.settle(step.step_id, outcome, targets)
                for each in tell(plan, [one])
            ]
            page.settled(step.step_id, outcome, targets)
            page.next()
            assert message == page.said
            page.said.clear()


AGENT, MODEL = Missing(MissingKind.AGENT, "writer"), Missing(MissingKind.MODEL, "small")
ASKED = Suspend(QuestionId("q_1"))


def test_a_step_that_waits_for_a_person_has_priority_over_a_blocked_one() -> None:
    pause = IdleSteps({"ask": ASKED}, {"write": (AGENT,)}).pause()
    assert isinstance(pause, Suspend)
    assert pause.awaited == ("q_1",)


def test_each_missing_part_of_blocked_steps_is_named_once() -> None:
    pause = IdleSteps(blocked={"write": (AGENT, MODEL), "judge": (MODEL,)}).pause()
    assert isinstance(pause, Blocked)
    assert pause.blocked_on == (AGENT, MODEL)


@pytest.mark.parametrize(("is_open", "taken"), [(True, []), (False, ["ask"])])
def test_a_step_is_idle_until_all_its_questions_are_answered(
    *, is_open: bool, taken: list[str]
) -> None:
    task = TaskState(TaskId("task_1"), None)
    task.own_waits().awaited = {TaskId("q_1"): None} if is_open else {}
    idle = IdleSteps({"ask": ASKED})
    assert idle.take_answered(task) == taken
    assert list(idle.waiting) == ([] if taken else ["ask"])
