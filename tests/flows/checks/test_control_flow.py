"""Jump targets, branches, `blockedBy`, and loops."""

import pytest
from msgspec.structs import replace

from penstock.flows.checks.control_flow import TOGETHER
from tests.flows.checks.findings import PLAIN, found_in

LAST = "- {id: last, agent: scout}\n"
JUDGE = "{id: a, agent: judge, task: t, "
BLOCKED = 'error bad-blocked-by: blockedBy of step "b"'
LEADS = "leads to unknown step"
FORK = "- {id: f, question: q, branches: {Go: last, Stay: last}"


@pytest.mark.parametrize(
    ("step", "expected"),
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
            JUDGE + "loop_target: lst, exit_target: last, max_iterations: 2}",
            'loop_target of step "a" names unknown step "lst"; did you mean "last"?',
        ),
        (
            JUDGE + "loop_target: a, exit_target: lst, max_iterations: 2}",
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
def test_a_jump_to_an_unknown_step_is_reported(step: str, expected: str) -> None:
    """Seed checks 5 and 6, and `on_complete`, `on_error`, `present`, `absent`."""
    assert found_in(f"- {step}\n{LAST}", PLAIN) == [f"4 error unknown-step: {expected}"]


def test_a_target_is_reported_at_its_key() -> None:
    steps = f"- id: a\n  agent: scout\n  on_error:\n    lst\n{LAST}"
    (message,) = found_in(steps, PLAIN)
    assert message.startswith("6 error unknown-step")


@pytest.mark.parametrize(
    ("step", "expected"),
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
def test_an_option_without_a_branch_is_reported(step: str, expected: list[str]) -> None:
    assert found_in(f"{step}\n{LAST}", PLAIN) == expected


FIRST = "- {id: a, agent: scout}\n"


@pytest.mark.parametrize(
    ("steps", "expected"),
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
                f'4 {BLOCKED} names "c", which comes later (line 5); move "c" before "b"',
            ],
        ),
    ],
)
def test_a_step_may_wait_only_for_earlier_agent_steps(steps: str, expected: list[str]) -> None:
    """Seed check 4: "All `blockedBy:` references point to earlier agent steps"; itself, too."""
    assert found_in(steps) == expected


A, B, C = (f"- {{id: {name}, agent: scout}}\n" for name in "abc")
SHELL = "- {{id: {}, command: x, on_error: {}}}\n"
BOUND = "nothing bounds the loop; put an agent-loop-decision in the loop"
LOOP = "- {{id: l, agent: judge, task: t, loop_target: {}, exit_target: {}, max_iterations: 2}}\n"
DECIDE = "- {{id: d, agent: judge, task: t, branches: {{x: {}, y: {}}}{}}}\n"
CODE = "- {{id: d, type: code-decision, target: d.mts, branches: {{x: {}, y: {}}}{}}}\n"
FORK_OF = "- {{id: f, question: q, branches: {{x: {}, y: {}}}{}}}\n"
COUNTED = ", max_iterations: 2"


def warn(code: str, text: str, line: int = 4) -> list[str]:
    return [f"{line} warning {code}: {text}"]


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        (
            f"{A}- {{id: s, path: '*', on_complete: a}}\n",
            warn("route-unbounded", f'on_complete of step "s" leads back to "a" and {BOUND}', 5),
        ),
        (
            f"{A}- {{id: s, path: '*', on_error: a}}\n",
            warn("route-unbounded", f'on_error of step "s" leads back to "a" and {BOUND}', 5),
        ),
        (
            "- {id: s, path: '*', on_error: s}\n",
            warn("route-unbounded", f'on_error of step "s" leads back to "s" and {BOUND}'),
        ),
        (
            f"{A}- {{id: s, check: a, present: a, absent: b}}\n{B}",
            warn("route-unbounded", f'present of step "s" leads back to "a" and {BOUND}', 5),
        ),
        (
            f"{A}- {{id: s, check: a, present: b, absent: a}}\n{B}",
            warn("route-unbounded", f'absent of step "s" leads back to "a" and {BOUND}', 5),
        ),
        (A + LOOP.format("a", "b") + "- {id: b, agent: scout, on_complete: a}\n", []),
        (A + FORK_OF.format("b", "c", "") + "- {id: b, agent: scout, on_complete: a}\n" + C, []),
        (A + DECIDE.format("a", "b", COUNTED) + "- {id: b, agent: scout, on_complete: a}\n", []),
        (
            A + DECIDE.format("b", "c", "") + "- {id: b, agent: scout, on_complete: a}\n" + C,
            warn("route-unbounded", f'on_complete of step "b" leads back to "a" and {BOUND}', 6),
        ),
        ("- {id: f, question: q, branches: {x: f, y: a}, on_error: f}\n" + A, []),
        (
            "- {id: a, agent: scout, blockedBy: [], on_error: a}\n",
            warn("route-unbounded", f'on_error of step "a" leads back to "a" and {BOUND}'),
        ),
        (f"{A}- {{id: b, agent: scout, on_complete: a}}\n", []),
        (
            f"{A}- {{id: b, agent: scout, blockedBy: [a], on_complete: a}}\n",
            warn("route-unbounded", f'on_complete of step "b" leads back to "a" and {BOUND}', 5),
        ),
        (A + SHELL.format("s", "c") + B + C, []),
        ("- {id: a, agent: scout, on_complete: b}\n- {id: b, agent: scout, blockedBy: [a]}\n", []),
    ],
)
def test_a_jump_back_without_a_limit_is_reported(steps: str, expected: list[str]) -> None:
    """Loop decisions, forks and capped decisions bound."""
    assert found_in(steps, PLAIN) == expected


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        (
            A + DECIDE.format("a", "b", "") + B,
            warn(
                "back-branch-unbounded",
                (
                    'branch "x" of step "d" leads back to "a" without max_iterations; '
                    "add max_iterations: 3"
                ),
                5,
            ),
        ),
        (
            DECIDE.format("d", "b", "") + B,
            warn(
                "back-branch-unbounded",
                (
                    'branch "x" of step "d" leads back to "d" without max_iterations; '
                    "add max_iterations: 3"
                ),
            ),
        ),
        (
            A + CODE.format("a", "b", "") + B,
            warn(
                "back-branch-unbounded",
                (
                    'branch "x" of step "d" leads back to "a" without max_iterations; '
                    "add max_iterations: 3"
                ),
                5,
            ),
        ),
        (A + DECIDE.format("a", "b", COUNTED) + B, []),
        (A + FORK_OF.format("a", "b", "") + B, []),
        (A + FORK_OF.format("a", "b", COUNTED) + B, []),
        (
            FORK_OF.format("a", "b", COUNTED) + A + B,
            warn(
                "max-iterations-unused",
                (
                    'max_iterations of step "f" has no effect: no branch leads back; use '
                    "type: agent-loop-decision if the loop body comes later"
                ),
            ),
        ),
        (
            DECIDE.format("a", "b", COUNTED) + A + B,
            warn(
                "max-iterations-unused",
                (
                    'max_iterations of step "d" has no effect: no branch leads back; use '
                    "type: agent-loop-decision if the loop body comes later"
                ),
            ),
        ),
        (
            LOOP.format("a", "b") + A + B,
            warn(
                "loop-target-forward",
                'loop_target "a" of step "l" comes later and nothing leads back',
            ),
        ),
        (LOOP.format("a", "b") + "- {id: a, agent: scout, on_complete: l}\n" + B, []),
        (LOOP.format("a", "b") + "- {id: a, agent: scout, on_error: l}\n" + B, []),
        (LOOP.format("l", "b") + B, []),
        (A + LOOP.format("a", "b") + B, []),
    ],
)
def test_a_limit_and_a_branch_back_need_each_other(steps: str, expected: list[str]) -> None:
    assert found_in(steps, replace(PLAIN, has_file={"flows/d.mts"}.__contains__)) == expected


PATCH, BIG = "- {id: patch, agent: scout}\n", "- {id: big, agent: scout}\n"
BETWEEN = "- {id: lint, command: x, on_error: big}\n"
SMALL = DECIDE.format("patch", "big", "")
FALLS = warn(
    "branch-falls-through",
    f'after branch "x" of step "d" the step "big" of branch "y" runs too; {TOGETHER}',
)


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        (SMALL + PATCH + BETWEEN + BIG, FALLS),
        (SMALL.replace("agent: judge, task: t", "question: q") + PATCH + BETWEEN + BIG, FALLS),
        (SMALL + "- {id: patch, path: '*'}\n- {id: big, path: '*'}\n", FALLS),
        (SMALL + PATCH + BETWEEN + "- {id: other, agent: scout}\n" + BIG, FALLS),
        (SMALL + PATCH + BIG, []),
        (SMALL + PATCH.replace("}", ", end: true}") + BIG, []),
        (
            SMALL
            + PATCH.replace("}", ", on_complete: z}")
            + BETWEEN
            + BIG
            + "- {id: z, path: '*'}\n",
            [],
        ),
        (SMALL + PATCH + BETWEEN.replace("}", ", end: true}") + BIG, []),
        (SMALL + PATCH + BETWEEN + BIG.replace("}", ", blockedBy: [patch]}"), []),
        (SMALL + PATCH + BETWEEN + BIG.replace("}", ", task: '${{result.lint.stderr}}'}"), []),
        (
            SMALL
            + PATCH
            + BETWEEN
            + "- {id: big, check: patch.summary, present: z, absent: z}\n- {id: z, path: '*'}\n",
            [],
        ),
        (SMALL + PATCH + "- {id: g, question: q, branches: {u: big, v: big}}\n" + BIG, []),
        (DECIDE.format("patch", "patch", "") + PATCH + BETWEEN + BIG, []),
    ],
)
def test_a_branch_into_another_one_is_reported(steps: str, expected: list[str]) -> None:
    assert [each for each in found_in(steps, PLAIN) if "single" not in each] == expected


def test_each_of_three_branches_in_a_row_falls_through_into_the_next() -> None:
    steps = (
        "- {id: d, question: q, branches: {x: a, y: b, z: c, again: a}}\n"
        "- {id: a, path: '*'}\n- {id: b, path: '*'}\n- {id: c, path: '*'}\n"
    )
    starts = [f'4 warning branch-falls-through: after branch "{name}" of' for name in "xy"]
    reported = found_in(steps, PLAIN)
    assert [each.startswith(start) for each, start in zip(reported, starts, strict=True)] == [
        True
    ] * 2


CAUGHT = warn(
    "error-target-runs",
    (
        'on_error target "b" of step "a" also runs without an error; put it behind a '
        "step with end: true"
    ),
)
RISKY = "- {id: a, agent: scout, on_error: b}\n"


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        (RISKY + B, CAUGHT),
        (RISKY + B.replace("}", ", blockedBy: [a]}"), CAUGHT),
        (RISKY.replace("}", ", end: true}") + B, []),
        (RISKY + "- {id: s, path: '*', end: true}\n" + B, []),
        (FORK_OF.format("a", "c", "") + RISKY + B + C.replace("}", ", blockedBy: []}"), []),
        (FORK_OF.format("a", "b", "") + RISKY + B, [CAUGHT[0].replace("4", "5", 1)]),
        (SHELL.format("a", "b") + B, []),
    ],
)
def test_an_error_target_that_runs_anyway_is_reported(steps: str, expected: list[str]) -> None:
    assert found_in(steps, PLAIN) == expected
