"""Dry runs: paths, bounds, findings."""

import pytest

from penstock.core.call import CallPath
from penstock.core.events.flow_events import FlowNotified
from penstock.flows.dry_run.dry_run import TASK, discarding_ledger, dry_findings
from penstock.flows.dry_run.outcome import DryRun, ReachedBranch
from tests.flows.dry_run.walks import Hurry, dry, dry_lines, unwalked, world
from tests.flows.texts import TOP, finding_lines, read
from tests.kit.worked_examples import SUITES, W6, WORKED

RUNS = {
    "W1": 1,
    "W2": 1,
    "W3": 2,
    "W4": 2,
    "W5": 3,
    "W5 with end": 3,
    "W6": 2,
    "W7": 2,
    "W8": 2,
    "W9": 2,
    "W10": 4,
    "W11": 2,
}
FILES = {
    name.removeprefix("flows/").removesuffix(".yaml"): text.removeprefix(TOP)
    for name, text in SUITES.items()
}


@pytest.mark.parametrize("name", WORKED)
def test_every_path_of_the_examples_is_taken(name: str) -> None:
    """Shortest set of runs that walks every edge."""
    run = dry(WORKED[name], FILES)
    assert (run.runs, unwalked(run), run.is_complete) == (RUNS[name], [], True)
    assert WORKED[name].count("id: ") == len(run.reached)


def test_programs_receive_the_reached_steps() -> None:
    assert dry("- {id: a, agent: scout, on_error: b}\n- {id: b, agent: scout}\n").to_wire() == {
        "runs": 2,
        "starts": 5,
        "reached": ["a", "b"],
        "branches": [{"step": "a", "branch": "on_error", "walked": True}],
        "complete": True,
    }


def test_a_dry_run_does_not_wait_for_retries() -> None:
    steps = "- {id: a, agent: scout, retry: true, on_error: b}\n- {id: b, agent: scout}\n"
    assert dry(steps).starts == 5


@pytest.mark.slow("two runs of a thousand starts")
def test_an_endless_flow_is_stopped_after_a_thousand_starts() -> None:
    """`dry-no-end` (error: cap of starts)."""
    pick = "- {id: b, type: code-decision, branches: {x: a, y: b}}\n"
    steps = "- {id: a, type: code}\n" + pick
    assert "b" in dry(steps).endless
    assert dry_lines(steps)[0] == (
        "5 error dry-no-end: a run did not end within 1000 starts of steps: it repeats "
        "b, a; let an agent-loop-decision or max_iterations end it"
    )


def test_unreachable_steps_are_reported() -> None:
    steps = "- {id: a, agent: scout, end: true}\n- {id: b, agent: scout}\n"
    assert dry(steps).reached == ("a",)
    assert dry(steps).is_complete
    assert dry_lines(steps) == ['5 warning dry-unreachable: none of 2 runs reached step "b"']


def test_after_two_seconds_the_untaken_paths_are_reported() -> None:
    """2 s in all; then `complete: false` and what was not walked."""
    steps = "".join(f"- {{id: s{n}, type: code, on_error: last}}\n" for n in range(9))
    run = dry(steps + "- {id: last, agent: scout}\n", clock=Hurry())
    assert not run.is_complete
    assert 1 < run.runs < 9
    assert unwalked(run)[-1] == ("s8", "on_error")
    assert run.failures == ()


HIDDEN = {
    "a bound that only other ways use up": """\
- {id: a, agent: scout}
- {id: b, type: code-decision, branches: {x: a, y: d}, max_iterations: 1, on_error: a}
- {id: c, agent: scout, end: true}
- {id: d, agent: judge, task: t, loop_target: c, exit_target: b, max_iterations: 1}
""",
    "a fork that is reached by an error of a loop alone": """\
- {id: a, agent: judge, task: t, loop_target: a, exit_target: e, max_iterations: 2, on_error: b}
- id: b
  question: Q
  branches: {x: e, y: c, z: e}
  multiSelect: true
  max_iterations: 2
- {id: c, question: Q, branches: {x: f, y: b}, max_iterations: 2}
- {id: d, type: code-decision, branches: {x: g, y: g}, max_iterations: 2}
- {id: e, agent: scout}
- {id: f, question: Q, branches: {x: g, y: g}, max_iterations: 2, on_error: g}
- {id: g, agent: scout}
""",
    "a fork behind another that leads back": """\
- {id: a, agent: judge, task: t, loop_target: a, exit_target: g, max_iterations: 2}
- id: b
  question: Q
  branches: {x: f, y: a, z: g}
  multiSelect: true
  max_iterations: 2
  on_error: a
- {id: c, agent: scout}
- {id: d, question: Q, branches: {x: b, y: g}, on_error: f}
- {id: e, check: a.summary, present: c, absent: g}
- {id: f, agent: judge, task: t, branches: {x: a, y: g}, max_iterations: 1, on_error: e}
- {id: g, question: Q, branches: {x: a, y: d}, multiSelect: true, max_iterations: 2}
""",
}
"""Flows of 1,000 made by chance in which some way is open only after certain others."""


@pytest.mark.parametrize("name", HIDDEN)
def test_a_path_that_depends_on_earlier_choices_is_taken_too(name: str) -> None:
    """`dry-branch-unwalked` was reported for branches that real runs take."""
    run = dry(HIDDEN[name])
    assert (unwalked(run), run.is_complete) == ([], True)
    assert len(run.reached) == HIDDEN[name].count("id: ")


async def test_a_discarding_log_keeps_events_in_its_state_only() -> None:
    ledger = discarding_ledger(world(), "demo")
    ledger.add(FlowNotified(kind="flow_warning"), CallPath(TASK))
    ledger.held.submit_soon()
    assert await ledger.held.commit() == 0
    assert [
        event.kind for _, event in ledger.task.flow_events if isinstance(event, FlowNotified)
    ] == ["flow_warning"]


LOOP = """\
- {id: work, agent: scout}
- id: again
  agent: judge
  task: Enough?
  loop_target: work
  exit_target: end
  max_iterations: 3
- {id: end, agent: scout}
"""


def test_an_empty_template_is_reported_with_its_path() -> None:
    """`dry-template-empty` (a template that was empty on a walked path, with the path)."""
    assert dry_lines(W6) == [
        (
            '5 warning dry-template-empty: template "${{result.review.summary}}" in step "draft" '
            "was empty on the path gather -> draft"
        )
    ]


def test_a_read_of_an_undeclared_output_is_reported() -> None:
    """`dry-output-missing` (reads an output its agent never declares)."""
    steps = "- {id: look, agent: finder}\n- id: tell\n  agent: scout\n  inputs:\n    a: one\n"
    steps += "    b: ${{result.look.topic}}\n"
    assert dry_lines(steps) == [
        (
            '9 warning dry-output-missing: step "tell" reads "topic" of "look", which never '
            "returns it; declare it in the outputs of look"
        )
    ]


def test_each_outcome_of_a_loop_is_reported_at_its_field() -> None:
    walked = [ReachedBranch("again", each, is_walked=False) for each in ("exit", "loop", "cap")]
    dry = DryRun(runs=1, reached=("work", "again", "end"), branches=tuple(walked))
    assert finding_lines(dry_findings(read(LOOP), dry)) == [
        '8 warning dry-branch-unwalked: none of 1 run took "loop" of step "again"',
        '9 warning dry-branch-unwalked: none of 1 run took "exit" of step "again"',
        '10 warning dry-branch-unwalked: none of 1 run took "cap" of step "again"',
    ]


def test_the_reason_for_an_unreached_step_is_reported() -> None:
    steps = "- {id: a, path: none.yaml}\n- {id: b, agent: scout}\n"
    (finding,) = dry_lines(steps)
    assert finding == (
        '5 warning dry-unreachable: none of 1 run reached step "b"; '
        'runs ended with an error before: no flow matches "none.yaml"'
    )
    late = finding_lines(
        dry_findings(read(steps), DryRun(runs=200, reached=("a",), is_complete=False))
    )
    assert late == [
        (
            '5 warning dry-unreachable: none of 200 runs reached step "b"; '
            "there was no time to try everything"
        )
    ]
