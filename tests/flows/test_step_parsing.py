"""Steps from their text: ids, kinds, and fields that are missing, foreign or unknown."""

import pytest

from penstock.flows.definition import StepRetry
from penstock.flows.steps.agent import AgentStep
from penstock.flows.steps.code import Code, CodeDecision
from penstock.flows.steps.conditional import Conditional
from penstock.flows.steps.fork import Fork, option_items
from penstock.flows.steps.loop_decision import LoopDecision
from penstock.flows.steps.shell import Shell
from tests.flows.texts import attributes, finding_lines, findings_of_step, read, step_of


def test_the_second_check_of_the_seed() -> None:
    """Seed check 2: "All step IDs are unique"."""
    steps = "- id: look\n  agent: scout\n- id: look\n  agent: scout\n"
    assert finding_lines(read(steps).findings) == [
        '6 error duplicate-step: duplicate step id "look"; first at line 4; rename one of them'
    ]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ("agent: b", ["missing-id: step 1 has no id"]),
        ("id: '', agent: b", ["missing-id: step 1 has no id"]),
        (
            "id: 'a b', agent: b",
            ['bad-step-id: step id "a b" may use only letters, digits, "_" and "-"'],
        ),
        (
            "id: " + "a" * 65 + ", agent: b",
            [
                (
                    f'bad-step-id: step id "{"a" * 59}…" may use only letters, digits, '
                    f'"_" and "-"; use at most 64 characters'
                )
            ],
        ),
        (
            "id: 1, agent: b",
            ['wrong-type: "steps[0].id" must be a step id, found number 1; put it into quotes'],
        ),
        (
            "id: a, type: fork",
            [
                'missing-step-field: step "a" of type fork needs "branches"',
                'missing-step-field: step "a" of type fork needs "question"',
            ],
        ),
        ("id: a", ['missing-step-field: step "a" of type agent needs "agent"']),
        ("id: a, agent: ' '", ['missing-step-field: step "a" of type agent needs "agent"']),
        (
            "id: a, check: b, absent: c",
            [
                (
                    'missing-step-field: step "a" of type conditional needs "present"; '
                    'the type was inferred from "check"; set type: if this is wrong'
                )
            ],
        ),
        (
            "id: a, question: q, branches: {}",
            [
                (
                    'missing-step-field: step "a" of type fork needs "branches"; the '
                    'type was inferred from "question"; set type: if this is wrong'
                )
            ],
        ),
        (
            "agent: b, branches: {x: y}",
            [
                "missing-id: step 1 has no id",
                (
                    'missing-step-field: step 1 of type agent-decision needs "task"; the '
                    'type was inferred from "branches"; set type: if this is wrong'
                ),
            ],
        ),
        (
            "id: a, type: agnt",
            ['unknown-type: unknown step type "agnt" in step "a"; did you mean "agent"?'],
        ),
        (
            "id: a, type: loop",
            [
                (
                    'unknown-type: unknown step type "loop" in step "a"; known: agent, '
                    "fork, conditional, agent-decision, agent-loop-decision, flow-ref, "
                    "shell, code, code-decision"
                )
            ],
        ),
        ("id: a, type: 3", ['wrong-type: "steps.a.type" must be a step type, found number 3']),
        (
            "id: a, agent: [b]",
            ['wrong-type: "steps.a.agent" must be an agent name, found array ["b"]'],
        ),
        ("id: a, agent: b, task: 3", ['wrong-type: "steps.a.task" must be text, found number 3']),
        (
            "id: a, agent: b, model: 3",
            ['wrong-type: "steps.a.model" must be a model name, found number 3'],
        ),
        (
            "id: a, agent: b, on_error: 3",
            ['wrong-type: "steps.a.on_error" must be a step id, found number 3'],
        ),
        (
            "id: a, agent: b, end: yes",
            ['wrong-type: "steps.a.end" must be true or false, found string "yes"'],
        ),
        (
            "id: a, agent: b, blockedBy: {}",
            ['wrong-type: "steps.a.blockedBy" must be a list of step ids, found object {}'],
        ),
        (
            "id: a, agent: b, blockedBy: [1]",
            ['wrong-type: "steps.a.blockedBy[0]" must be a step id, found number 1'],
        ),
        (
            "id: a, agent: b, inputs: [c]",
            ['wrong-type: "steps.a.inputs" must be a mapping of texts, found array ["c"]'],
        ),
        (
            "id: a, agent: b, inputs: {c: 1}",
            ['wrong-type: "steps.a.inputs.c" must be text, found number 1'],
        ),
        (
            "id: a, question: q, branches: {b: 1}",
            ['wrong-type: "steps.a.branches.b" must be a step id, found number 1'],
        ),
        (
            "id: a, command: x, timeout: 86401",
            [
                (
                    'bad-value: "steps.a.timeout" must be a whole number from 1 to '
                    "86400, found number 86401"
                )
            ],
        ),
        (
            "id: a, type: code, timeout: 1.5",
            [
                (
                    'wrong-type: "steps.a.timeout" must be a whole number from 1 to '
                    "3600000, found number 1.5"
                )
            ],
        ),
        (
            "id: a, type: code, egress: x",
            ['wrong-type: "steps.a.egress" must be a list of hosts, found string "x"'],
        ),
        (
            "id: a, type: code, tools: 3",
            ['wrong-type: "steps.a.tools" must be a list of tool names, found number 3'],
        ),
        (
            "id: a, agent: b, task: c, loop_target: a, exit_target: a, max_iterations: 1001",
            [
                (
                    'bad-value: "steps.a.max_iterations" must be a whole number from 1 '
                    "to 1000, found number 1001"
                )
            ],
        ),
    ],
)
def test_an_invalid_step_is_an_error(fields: str, expected: list[str]) -> None:
    assert findings_of_step(fields) == [f"4 error {each}" for each in expected]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ("id: a, agent: b, reads: [c]", 'no-effect: "reads" is accepted and has no effect'),
        (
            "id: a, agent: b, tsk: c",
            'unknown-field: unknown field "tsk" in step "a"; did you mean "task"?',
        ),
        ("id: a, agent: b, zzzzzz: c", 'unknown-field: unknown field "zzzzzz" in step "a"'),
        (
            "id: a, agent: b, comand: c",
            'unknown-field: unknown field "comand" in step "a"; did you mean "command"?',
        ),
        (
            "id: a, agent: b, path: c",
            (
                'field-of-other-type: field "path" does nothing in step "a" of type '
                "agent; it belongs to flow-ref"
            ),
        ),
        (
            "id: a, agent: b, timeout: 3",
            (
                'field-of-other-type: field "timeout" does nothing in step "a" of type '
                "agent; it belongs to shell, code, code-decision"
            ),
        ),
        (
            "id: a, command: b, task: 3",
            (
                'field-of-other-type: field "task" does nothing in step "a" of type '
                "shell; it belongs to agent, fork, agent-decision, agent-loop-decision"
            ),
        ),
        (
            "id: a, check: b, present: a, absent: a, on_error: a",
            (
                'field-of-other-type: field "on_error" does nothing in step "a" of type '
                "conditional; it belongs to agent, fork, agent-decision, "
                "agent-loop-decision, flow-ref, shell, code, code-decision"
            ),
        ),
        (
            "id: a, type: code-decision, branches: {a: a}, end: true",
            (
                'field-of-other-type: field "end" does nothing in step "a" of type '
                "code-decision; it belongs to agent, flow-ref, shell, code"
            ),
        ),
        (
            "id: a, question: q, branches: {a: a}, decisionAgent: b",
            'old-name: "decisionAgent" is an old name; use "agent"',
        ),
    ],
)
def test_an_odd_step_is_a_warning(fields: str, expected: str) -> None:
    assert findings_of_step(fields) == [f"4 warning {expected}"]
    assert read(f"- {{{fields}}}").flow is not None


def test_a_fork_by_type_ignores_check() -> None:
    """`{id, type: fork, check}` -> fork with `field-of-other-type`."""
    message = findings_of_step("id: a, type: fork, check: b, question: q, branches: {x: a}")
    assert message == [
        (
            '4 warning field-of-other-type: field "check" does nothing in step "a" of type fork; '
            "it belongs to conditional"
        )
    ]


def test_a_missing_field_is_reported_at_the_id_and_an_invalid_value_at_its_position() -> None:
    steps = "-\n  agent: b\n  id: a\n  type: fork\n  question:\n    3\n"
    assert [(each.line, each.code) for each in read(steps).findings] == [
        (6, "missing-step-field"),
        (9, "wrong-type"),
    ]


def test_a_step_with_a_duplicate_id_or_none_is_still_parsed() -> None:
    read_one = read("- {id: a, agent: b}\n- {id: a, agent: c}\n- {agent: d}\n- x\n- {id: 5}\n")
    assert [each.step_id for each in read_one.steps] == ["a", "#1", "#2", "#4"]
    assert [each.label for each in read_one.steps] == ['step "a"', 'step "a"', "step 3", "step 5"]
    assert [each.is_named for each in read_one.steps] == [True, False, False, False]
    assert read_one.flow is None


def test_every_field_of_an_agent_step_is_parsed() -> None:
    step = step_of(
        "id: a, agent: b, task: t, model: m, output: o.md, blockedBy: 'c, d,', on_complete: e, "
        "on_error: f, end: true, retry: true, inputs: {yes: x}, outputs: [g], x-h: 3"
    )
    assert isinstance(step, AgentStep)
    names = ("task", "model", "output", "blocked_by", "on_complete", "on_error")
    assert list(attributes(step, *names).values()) == ["t", "m", "o.md", ("c", "d"), "e", "f"]
    assert (step.is_last, step.retry, step.inputs) == (True, StepRetry(), {"yes": "x"})
    assert [each.name for each in step.outputs] == ["g"]


def test_every_field_of_a_fork_is_parsed() -> None:
    """Keys of `branches` are text as written: `{yes: a, 1: b, true: c}`."""
    step = step_of(
        "id: f, question: q, branches: {yes: a, 1: b, true: c}, options: [yes, '1'], task: t, "
        "multiSelect: true, allowCustom: true, allowNotes: false, agent: d, max_iterations: 3"
    )
    assert isinstance(step, Fork)
    assert step.branches == {"yes": "a", "1": "b", "true": "c"}
    assert step.options == ("yes", "1")
    assert (step.is_multiple, step.allows_custom, step.allows_notes) == (True, True, False)
    assert (step.agent, step.task, step.max_iterations) == ("d", "t", 3)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("", ("a, b", "c")),
        (", options: 'a, b'", ("a, b",)),
        (", options: 'c, d'", ("c", "d")),
        (", options: [c]", ("c",)),
    ],
)
def test_options_may_be_a_list_or_one_string(options: str, expected: tuple[str, ...]) -> None:
    """The whole text if it is a branch name, else split at commas; default the branch names."""
    fields = f"id: f, question: q, branches: {{'a, b': x, c: y}}{options}"
    assert step_of(fields).options == expected
    items = option_items(read(f"- {{{fields}}}").steps[0].node)
    assert tuple(text for text, _ in items) == (expected if options else ())


def test_the_new_name_of_a_field_overrides_the_old_one() -> None:
    assert step_of(
        "id: f, question: q, branches: {a: b}, agent: new, decisionAgent: old"
    ).agent == ("new")
    assert step_of("id: f, question: q, branches: {a: b}, decisionAgent: old").agent == "old"


def test_the_fields_of_the_other_kinds_are_parsed() -> None:
    shell = step_of(
        "id: s, command: c, timeout: 5, config: {a: 1}, idempotent: true, "
        "retry: {attempts: 2, delay: 0}"
    )
    assert isinstance(shell, Shell)
    assert (shell.timeout, shell.config, shell.is_idempotent) == (5, {"a": 1}, True)
    assert shell.retry == StepRetry(2, 0)
    code = step_of("id: c, type: code, target: x.mts, tools: 'a, b', egress: [h], timeout: 9")
    assert isinstance(code, Code)
    assert (code.target, code.tools, code.egress, code.timeout) == ("x.mts", ("a", "b"), ("h",), 9)
    chooser = step_of("id: d, type: code-decision, branches: {a: d}, outputs: [x]")
    assert isinstance(chooser, CodeDecision)
    assert (chooser.branches, chooser.timeout) == ({"a": "d"}, 60_000)
    loop = step_of("id: l, agent: a, task: t, loop_target: x, exit_target: y, max_iterations: 3")
    assert isinstance(loop, LoopDecision)
    assert (loop.loop_target, loop.exit_target, loop.max_iterations) == ("x", "y", 3)
    test = step_of("id: t, check: a.b, present: x, absent: y")
    assert isinstance(test, Conditional)
    assert (test.check, test.present, test.absent) == ("a.b", "x", "y")
