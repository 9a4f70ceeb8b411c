"""Steps that other steps name: jump targets, options, `blockedBy`."""

import pytest

from tests.flows.checks.around import PLAIN, found_in

LAST = "- {id: last, agent: scout}\n"
LEADS = "leads to unknown step"
FORK = "- {id: f, question: q, branches: {Go: last, Stay: last}"


@pytest.mark.parametrize(
    ("step", "wanted"),
    [
        (
            "{id: a, agent: scout, on_complete: lst}",
            'on_complete of step "a" names unknown step "lst"; did you mean "last"?',
        ),
        (
            "{id: a, agent: scout, on_error: nowhere}",
            'on_error of step "a" names unknown step "nowhere"',
        ),
        (
            "{id: a, check: last, present: lst, absent: last}",
            'present of step "a" names unknown step "lst"; did you mean "last"?',
        ),
        (
            "{id: a, check: last, present: last, absent: lst}",
            'absent of step "a" names unknown step "lst"; did you mean "last"?',
        ),
        (
            (
                "{id: a, agent: judge, task: t, loop_target: lst, exit_target: last, "
                "max_iterations: 2}"
            ),
            'loop_target of step "a" names unknown step "lst"; did you mean "last"?',
        ),
        (
            "{id: a, agent: judge, task: t, loop_target: a, exit_target: lst, max_iterations: 2}",
            'exit_target of step "a" names unknown step "lst"; did you mean "last"?',
        ),
        (
            "{id: a, agent: judge, task: t, branches: {x: lst, y: last}}",
            f'branch "x" of step "a" {LEADS} "lst"; did you mean "last"?',
        ),
        (
            "{id: a, question: q, branches: {x: lst, y: last}}",
            f'branch "x" of step "a" {LEADS} "lst"; did you mean "last"?',
        ),
    ],
)
def test_a_jump_leads_to_a_step_that_is_there(step: str, wanted: str) -> None:
    """Seed checks 5 and 6, and `on_complete`, `on_error`, `present`, `absent`."""
    assert found_in(f"- {step}\n{LAST}", PLAIN) == [f"4 error unknown-step: {wanted}"]


def test_a_target_is_reported_at_its_key() -> None:
    steps = f"- id: a\n  agent: scout\n  on_error:\n    lst\n{LAST}"
    (said,) = found_in(steps, PLAIN)
    assert said.startswith("6 error unknown-step")


@pytest.mark.parametrize(
    ("step", "wanted"),
    [
        (
            f"{FORK}, options: [Go, Sty]}}",
            [
                (
                    '4 error option-without-branch: option "Sty" of step "f" has no '
                    'branch; did you mean "Stay"?'
                ),
                (
                    '4 warning branch-without-option: branch "Stay" of step "f" is not '
                    "among its options"
                ),
            ],
        ),
        (
            f"{FORK}, options: 'Go, Stay, Something'}}",
            [
                (
                    '4 error option-without-branch: option "Something" of step "f" has '
                    "no branch; add it under branches"
                )
            ],
        ),
        (
            f"{FORK}, options: [Go]}}",
            ['4 warning branch-without-option: branch "Stay" of step "f" is not among its options'],
        ),
        (f"{FORK}}}", []),
        ("- {id: f, question: q, branches: {Go: last}}", []),
        (
            "- {id: f, agent: judge, task: t, branches: {Go: last}}",
            ['4 warning single-branch: step "f" has one branch only'],
        ),
        (
            "- {id: f, agent: judge, task: t, branches: {}}",
            [
                (
                    '4 error missing-step-field: step "f" of type agent-decision needs '
                    '"branches"; the type was inferred from "branches"; set type: if '
                    "this is wrong"
                )
            ],
        ),
    ],
)
def test_options_and_branches_fit_each_other(step: str, wanted: list[str]) -> None:
    assert found_in(f"{step}\n{LAST}", PLAIN) == wanted


FIRST = "- {id: a, agent: scout}\n"


@pytest.mark.parametrize(
    ("steps", "wanted"),
    [
        (f"{FIRST}- {{id: b, agent: scout, blockedBy: [a]}}", []),
        (f"{FIRST}- {{id: b, agent: scout, blockedBy: a}}", []),
        (f"{FIRST}- {{id: b, path: '*.yaml', blockedBy: [a]}}", []),
        (
            "- {id: a, agent: scout, blockedBy: [a]}",
            ['4 error bad-blocked-by: step "a" is blocked by itself'],
        ),
        (
            "- {id: a, agent: scout, blockedBy: 'b, c'}",
            [
                (
                    '4 error bad-blocked-by: blockedBy of step "a" names unknown step '
                    '"b"; did you mean "a"?'
                ),
                (
                    '4 error bad-blocked-by: blockedBy of step "a" names unknown step '
                    '"c"; did you mean "a"?'
                ),
            ],
        ),
        (
            "- {id: one, path: '*', blockedBy: [another]}",
            ['4 error bad-blocked-by: blockedBy of step "one" names unknown step "another"'],
        ),
        (
            "- {id: b, path: '*'}\n- {id: c, agent: scout, blockedBy: [b]}",
            [
                (
                    '5 error bad-blocked-by: blockedBy of step "c" names "b", which is a '
                    "flow-ref step; it runs before everything below it anyway; remove it"
                )
            ],
        ),
        (
            (
                "- {id: b, agent: judge, task: t, branches: {x: c, y: c}}\n- {id: c, "
                "agent: scout, blockedBy: [b]}"
            ),
            [
                (
                    '5 error bad-blocked-by: blockedBy of step "c" names "b", which is '
                    "an agent-decision step; it runs before everything below it anyway; "
                    "remove it"
                )
            ],
        ),
        (
            "- {id: b, command: x, on_error: c, blockedBy: [c]}\n- {id: c, agent: scout}",
            [
                (
                    '4 error bad-blocked-by: blockedBy of step "b" names "c", which '
                    'comes later (line 5); move "c" before "b"'
                )
            ],
        ),
    ],
)
def test_a_step_waits_for_earlier_agent_steps_alone(steps: str, wanted: list[str]) -> None:
    """Seed check 4: "All `blockedBy:` references point to earlier agent steps"; itself, too."""
    assert found_in(steps) == wanted
