"""Findings of dry runs, with their places."""

from penstock.flows.dry_run.findings import dry_findings
from penstock.flows.dry_run.outcome import DryRun, ReachedBranch
from tests.flows.dry_run.walks import found
from tests.flows.texts import finding_lines, read
from tests.kit.worked import W6

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
    assert found(W6) == [
        (
            '5 warning dry-template-empty: template "${{result.review.summary}}" in step "draft" '
            "names nothing on the way gather -> draft"
        )
    ]


def test_an_output_that_its_agent_never_declares() -> None:
    """`dry-output-missing` (reads an output its agent never declares)."""
    steps = "- {id: look, agent: finder}\n- id: tell\n  agent: scout\n  inputs:\n    a: one\n"
    steps += "    b: ${{result.look.topic}}\n"
    assert found(steps) == [
        (
            '9 warning dry-output-missing: step "tell" reads "topic" of "look", which never hands '
            "it in; declare it in the outputs of look"
        )
    ]


def test_each_outcome_of_a_loop_is_reported_at_its_field() -> None:
    walked = [ReachedBranch("again", each, is_walked=False) for each in ("exit", "loop", "cap")]
    dry = DryRun(runs=1, reached=("work", "again", "end"), branches=tuple(walked))
    assert finding_lines(dry_findings(read(LOOP), dry)) == [
        '8 warning dry-branch-unwalked: no run of 1 took "loop" of step "again"',
        '9 warning dry-branch-unwalked: no run of 1 took "exit" of step "again"',
        '10 warning dry-branch-unwalked: no run of 1 took "cap" of step "again"',
    ]


def test_the_reason_for_an_unreached_step_is_reported() -> None:
    steps = "- {id: a, path: none.yaml}\n- {id: b, agent: scout}\n"
    (finding,) = found(steps)
    assert finding == (
        '5 warning dry-unreachable: no run of 1 reached step "b"; '
        'runs ended with an error before: no flow matches "none.yaml"'
    )
    late = finding_lines(
        dry_findings(read(steps), DryRun(runs=200, reached=("a",), is_complete=False))
    )
    assert late == [
        (
            '5 warning dry-unreachable: no run of 200 reached step "b"; '
            "there was no time to try everything"
        )
    ]
