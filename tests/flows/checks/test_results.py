"""The results that steps read."""

import pytest

from tests.flows.checks.findings import SEED, beside, codes_in, found_in
from tests.flows.texts import TOP

LOOK = "- {id: look, agent: scout}\n"
UNKNOWN = 'warning template-unknown-step: template in step "a" refers to unknown step'
STANDARD = "status, summary, artifacts, files, fullOutput, output, branch"


def reading(place: str, step: str = "look") -> str:
    return f"- {{id: a, agent: scout, blockedBy: [{step}], task: '${{{{{place}}}}}'}}\n"


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        ("result.look", None),
        ("result.look.summary", None),
        ("result.look.topics", None),
        ("result.loook", f'{UNKNOWN} "loook"; did you mean "look"?'),
        ("result.zzzzzz.summary", f'{UNKNOWN} "zzzzzz"'),
        (
            "result.look.topcs",
            (
                'warning template-unknown-field: "topcs" is not an output of step '
                '"look"; did you mean "topics"?'
            ),
        ),
        (
            "result.look.zzzzzz",
            (
                f'warning template-unknown-field: "zzzzzz" is not an output of step '
                f'"look"; known: {STANDARD}, topics'
            ),
        ),
        ("result.look.a.b", f'{UNKNOWN} "look.a"; did you mean "look"?'),
    ],
)
def test_a_read_of_an_unknown_result_or_field_is_reported(place: str, expected: str | None) -> None:
    """Seed check 8: "Warning for steps that reference undefined step IDs in template variables"."""
    assert found_in(LOOK + reading(place)) == ([] if expected is None else [f"5 {expected}"])


LAST = "- {id: z, agent: scout}\n"


@pytest.mark.parametrize(
    ("step", "field", "is_known"),
    [
        ("{id: s, command: x, on_error: z}", "exitCode", True),
        ("{id: s, command: x, on_error: z}", "stdout", False),
        ("{id: s, type: code, outputs: [n]}", "n", True),
        ("{id: s, type: code, outputs: [n]}", "m", False),
        ("{id: s, type: code-decision, branches: {x: a, y: z}}", "branch", True),
        ("{id: s, agent: scout, outputs: [n]}", "n", True),
        ("{id: s, agent: judge, task: t, branches: {x: a, y: z}}", "n", False),
        ("{id: s, agent: unknown-one}", "n", True),
        ("{id: s, question: q, branches: {x: a, y: z}}", "n", False),
        ("{id: s, path: '*'}", "n", True),
    ],
)
def test_the_fields_of_a_result_depend_on_the_kind_of_its_step(
    step: str, field: str, is_known: bool
) -> None:
    steps = f"- {step}\n- {{id: a, agent: scout, task: '${{{{result.s.{field}}}}}'}}\n{LAST}"
    reported = [each for each in codes_in(steps) if "unknown-field" in each]
    assert reported == ([] if is_known else ["5 warning template-unknown-field"])


LATE = "which is not sure to run before it"
FORK = "- {id: f, question: q, branches: {x: b, y: a}}\n"
B = "- {id: b, agent: scout}\n"


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        (
            B + reading("result.b", ""),
            (
                f'5 warning template-order: step "a" reads the result of "b", {LATE}; add '
                f"blockedBy: [b]"
            ),
        ),
        (
            reading("result.b", "") + B,
            (
                f'4 warning template-order: step "a" reads the result of "b", {LATE}; add '
                f"blockedBy: [b]"
            ),
        ),
        (
            reading("result.b", "") + "- {id: b, path: '*'}\n",
            (
                f'4 warning template-order: step "a" reads the result of "b", {LATE}; '
                f'move "b" before "a"'
            ),
        ),
        (
            reading("result.a", ""),
            f'4 warning template-order: step "a" reads the result of "a", {LATE}',
        ),
        (B + "- {id: s, path: '*'}\n" + reading("result.b", ""), None),
        (B + "- {id: c, agent: scout, blockedBy: [b]}\n" + reading("result.b", "c"), None),
        (
            B.replace("}", ", end: true}") + reading("result.b", ""),
            (
                f'5 warning template-order: step "a" reads the result of "b", {LATE}; '
                f'move "b" before "a"'
            ),
        ),
        (
            B.replace("}", ", on_complete: z}")
            + "- {id: s, path: '*'}\n"
            + reading("result.b", "")
            + "- {id: t, path: '*'}\n- {id: z, agent: scout}\n",
            (
                f'6 warning template-order: step "a" reads the result of "b", {LATE}; '
                f'move "b" before "a"'
            ),
        ),
        (
            B.replace("}", ", on_error: z, end: true}")
            + "- {id: z, agent: scout, task: '${{result.b}}'}\n",
            None,
        ),
        (FORK + B + reading("result.f", ""), None),
        (
            FORK + B + reading("result.b", ""),
            (
                f'6 warning template-order: step "a" reads the result of "b", {LATE}; add '
                f"blockedBy: [b]"
            ),
        ),
        (
            (
                "- {id: f, question: q, multiSelect: true, branches: {x: b, y: a}}\n- "
                "{id: b, path: '*', end: true}\n"
            )
            + reading("result.b", ""),
            None,
        ),
        (
            reading("result.b", "")
            + (
                "- {id: b, agent: judge, task: t, loop_target: a, exit_target: z, "
                "max_iterations: 2}\n"
            )
            + LAST,
            None,
        ),
        (
            reading("result.b", "")
            + "- {id: b, agent: judge, task: t, branches: {x: a, y: z}, max_iterations: 2}\n"
            + LAST,
            None,
        ),
        (
            "- {id: b, agent: judge, task: t, branches: {x: b, y: z}, max_iterations: 2}\n"
            + reading("result.b", "")
            + LAST,
            None,
        ),
        (
            "- {id: b, check: y, present: z, absent: z}\n- {id: y, path: '*'}\n"
            + reading("result.b", "")
            + LAST,
            (
                f'6 warning template-order: step "a" reads the result of "b", {LATE}; '
                f'move "b" before "a"'
            ),
        ),
    ],
)
def test_a_read_of_a_step_that_may_not_have_run_is_reported(
    steps: str, expected: str | None
) -> None:
    """Given when no path of dependencies, fall-through and jumps leads from s to the step."""
    assert found_in(steps) == ([] if expected is None else [expected])


def test_a_result_that_is_read_twice_too_early_is_reported_once() -> None:
    steps = B + "- id: a\n  agent: scout\n  task: |\n    ${{result.b}}\n    ${{result.b.summary}}\n"
    assert codes_in(steps) == ["8 warning template-order"]


OTHERS = {
    "flows/one.yaml": f"{TOP}- {{id: sum, agent: scout}}\n- {{id: both, agent: scout}}\n",
    "flows/two.yaml": f"{TOP}- {{id: both, agent: scout}}\n",
    "flows/broken.yaml": "[",
}


@pytest.mark.parametrize(
    ("path", "place", "expected"),
    [
        ("one.yaml", "result.sum.summary", None),
        ("one.yaml", "result.one.sum", None),
        ("one.yaml", "result.one.sum.summary", None),
        ("one.yaml", "result.one.anything", None),
        ("one.yaml", "result.smu", f'{UNKNOWN} "smu"; did you mean "sum"?'),
        ("one.yaml", "result.one.smu.summary", f'{UNKNOWN} "one.smu"; did you mean "one.sum"?'),
        ("one.yaml", "result.both.summary", f'{UNKNOWN} "both"'),
        ("*.yaml", "result.anything.summary", None),
        ("*.yaml", "result.one.2.sum", None),
        ("${{task}}", "result.anything", None),
        ("broken.yaml", "result.anything", None),
        ("missing.yaml", "result.anything", None),
    ],
)
def test_results_of_a_reference_are_checked_if_its_flow_is_known(
    path: str, place: str, expected: str | None
) -> None:
    """Left out for ids that a flow-ref with a glob or an unreadable path might bring."""
    steps = (
        f"- {{id: one, path: '{path}'}}\n- {{id: two, path: two.yaml}}\n"
        f"- {{id: a, agent: scout, task: '${{{{{place}}}}}'}}\n"
    )
    reported = [each for each in found_in(steps, beside(SEED, OTHERS)) if "template" in each]
    assert reported == ([] if expected is None else [f"6 {expected}"])


@pytest.mark.parametrize(
    ("check", "expected"),
    [
        ("look", None),
        ("look.topics", None),
        ("look.artifacts", None),
        (
            "look.tpics",
            (
                '5 warning check-unknown-field: "tpics" is not an output of step "look"; '
                "its full output is tested"
            ),
        ),
        (
            "lok",
            (
                '5 warning check-unknown-step: check of step "c" refers to unknown step '
                '"lok"; did you mean "look"?'
            ),
        ),
        (
            "lok.topics",
            (
                '5 warning check-unknown-step: check of step "c" refers to unknown step '
                '"lok"; did you mean "look"?'
            ),
        ),
        (
            "look.a.b",
            (
                '5 warning check-unknown-step: check of step "c" refers to unknown step '
                '"look.a"; did you mean "look"?'
            ),
        ),
    ],
)
def test_a_conditional_that_tests_something_unknown_is_reported(
    check: str, expected: str | None
) -> None:
    steps = f"{LOOK}- {{id: c, check: {check}, present: z, absent: z}}\n{LAST}"
    assert found_in(steps) == ([] if expected is None else [expected])


def test_a_conditional_may_test_a_result_of_a_reference() -> None:
    steps = (
        "- {id: one, path: one.yaml}\n- {id: c, check: one.sum.topics, present: z, absent: z}\n"
        "- {id: d, check: one.smu.topics, present: z, absent: z}\n" + LAST
    )
    assert found_in(steps, beside(SEED, OTHERS)) == [
        (
            '6 warning check-unknown-step: check of step "d" refers to unknown step '
            '"one.smu"; did you mean "one.sum"?'
        )
    ]
