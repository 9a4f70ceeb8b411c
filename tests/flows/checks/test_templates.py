"""The templates of steps."""

import pytest

from tests.flows.checks.findings import PLAIN, codes_in, found_in

KNOWN = (
    'known: task, input, result, loop, fork, config, flow.input; write "$${{" for a literal "${{"'
)
LAST = "- {id: last, agent: scout}\n"
FORK = "- {id: f, question: q, branches: {x: last, y: a}}\n"
LOOP = "- {id: l, agent: judge, task: t, loop_target: l, exit_target: a, max_iterations: 2}\n"


def task(text: str) -> str:
    return f"- {{id: a, agent: scout, task: '{text}'}}\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "${{ secrets.X }}",
            f'error template-unknown: unknown template "${{{{ secrets.X }}}}" in step "a"; {KNOWN}',
        ),
        (
            "${{a.summary}}",
            (
                'error template-unknown: unknown template "${{a.summary}}" in step "a"; '
                'did you mean "${{result.a.summary}}"?'
            ),
        ),
        (
            "${{inputs.x}}",
            (
                'error template-unknown: unknown template "${{inputs.x}}" in step "a"; '
                'did you mean "${{input.x}}"?'
            ),
        ),
        (
            "${{taks}}",
            (
                'error template-unknown: unknown template "${{taks}}" in step "a"; did '
                'you mean "${{task}}"?'
            ),
        ),
        (
            "${{result}}",
            f'error template-unknown: unknown template "${{{{result}}}}" in step "a"; {KNOWN}',
        ),
        (
            "${{" + "x" * 90 + "}}",
            f'error template-unknown: unknown template "${{{{{"x" * 56}…" in step "a"; {KNOWN}',
        ),
        ("so ${{task", 'error template-unclosed: "${{" in step "a" is not closed on its line'),
        (
            "${{task.x}}",
            'error template-too-deep: template "${{task.x}}" in step "a" has too many parts',
        ),
        (
            "${{input.a.b}}",
            'error template-too-deep: template "${{input.a.b}}" in step "a" has too many parts',
        ),
        (
            "do {task}",
            (
                'warning template-single-brace: "{task}" in step "a" is not expanded; '
                'write "${{task}}"'
            ),
        ),
        (
            "{ result.a.x }",
            (
                'warning template-single-brace: "{ result.a.x }" in step "a" is not '
                'expanded; write "${{result.a.x}}"'
            ),
        ),
        (
            "${{input.n}}",
            (
                'warning template-input-not-wired: template "${{input.n}}" in step "a" '
                "names an input that is not wired"
            ),
        ),
        (
            "${{flow.input.n}}",
            (
                'warning template-flow-input: template "${{flow.input.n}}" in step "a" '
                "names a flow input that is not declared"
            ),
        ),
        ("${{loop.a.max}}", 'warning template-not-loop: "a" is not a loop step'),
        ("${{fork.a.answer}}", 'warning template-not-fork: "a" is not a fork step'),
        (
            "${{loop.aa.max}}",
            (
                'warning template-unknown-step: template in step "a" refers to unknown '
                'step "aa"; did you mean "a"?'
            ),
        ),
        (
            "${{fork.zzzzz.notes}}",
            'warning template-unknown-step: template in step "a" refers to unknown step "zzzzz"',
        ),
        ("$${{secrets.X}} ${task} {tasks} {{task}} {x} ${{task}} ${{config.any}}", None),
    ],
)
def test_a_placeholder_that_names_nothing_is_reported(text: str, expected: str | None) -> None:
    assert found_in(task(text), PLAIN) == ([] if expected is None else [f"4 {expected}"])


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ("- {id: a, question: '${{x}}', branches: {b: a}}", ["4 error template-unknown"]),
        ("- {id: a, question: q, task: '${{x}}', branches: {b: a}}", ["4 error template-unknown"]),
        ("- {id: a, path: '${{x}}'}", ["4 error template-unknown"]),
        (
            "- {id: a, command: '${{x}}', on_error: b}\n- {id: b, agent: scout}",
            ["4 error template-unknown"],
        ),
        ("- {id: a, path: '*', inputs: {b: '${{x}}'}}", ["4 error template-unknown"]),
        ("- {id: a, agent: scout, output: '${{x}}', model: '${{x}}'}", []),
        ("- {id: a, question: q, options: ['${{x}}'], branches: {'${{x}}': a}}", []),
        (
            "- {id: a, path: '*', inputs: {b: '${{input.c}} {task}'}}",
            ["4 error template-input-in-inputs", "4 warning template-single-brace"],
        ),
        ("- {id: a, path: '*', task: '${{x}}'}", ["4 warning field-of-other-type"]),
    ],
)
def test_templates_are_checked_in_their_fields_only(steps: str, expected: list[str]) -> None:
    """Expanded in: `task`, `question`, values of `inputs`, `path`, `command`.

    Not in ids, options, branch names, tools.
    """
    assert codes_in(steps, PLAIN) == expected


def test_inputs_cannot_read_inputs() -> None:
    """V6: `inputs` are expanded first, without `input.*`."""
    assert found_in("- {id: a, path: '*', inputs: {b: x, c: '${{input.b}}'}}", PLAIN) == [
        '4 error template-input-in-inputs: inputs of step "a" cannot read "${{input.b}}"'
    ]


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        (FORK + task("${{fork.f.answer}} ${{fork.f.notes}}") + LAST, []),
        (FORK + task("${{loop.f.max}}") + LAST, ["5 warning template-not-loop"]),
        (LOOP + task("${{loop.l.iteration}}") + LAST, []),
        (LOOP + task("${{fork.l.answer}}") + LAST, ["5 warning template-not-fork"]),
        ("- {id: b, question: q, branches: {x: b, y: a}}\n" + task("${{loop.b.max}}"), []),
        (
            "- {id: b, agent: judge, task: t, branches: {x: a, y: a}}\n" + task("${{loop.b.max}}"),
            ["5 warning template-not-loop"],
        ),
    ],
)
def test_only_forks_have_answers_and_only_loops_have_iterations(
    steps: str, expected: list[str]
) -> None:
    assert codes_in(steps, PLAIN) == expected


def test_wired_and_declared_inputs_can_be_read() -> None:
    top = "name: x\ninputs: {n: {type: string}}\ndescription: d\nsteps:\n"
    steps = "- {id: a, agent: scout, inputs: {b: '${{flow.input.n}}'}, task: '${{input.b}}'}"
    assert found_in(steps, PLAIN, top) == []


@pytest.mark.parametrize(
    ("command", "is_quoted"),
    [
        ("echo ${{task}}", False),
        ('echo "${{task}}"', False),
        ("echo '${{task}}'", True),
        ("echo 'a' ${{task}} 'b'", False),
        ("""echo "'${{task}}'" """, False),
        (r"echo \'${{task}}\'", False),
        (r"echo '\' ${{task}}", False),
        (r"""echo "\"'${{task}}" """, False),
        ("""echo '"'${{task}}'"'""", False),
        ("echo 'a\n      ${{task}}'", True),
    ],
)
def test_a_template_in_single_quotes_of_a_command_is_reported(
    command: str, is_quoted: bool
) -> None:
    message = (
        'warning template-in-single-quotes: template inside single quotes in step "a" is not '
        "expanded by the shell; use double quotes"
    )
    steps = f"- id: a\n  on_error: last\n  command: |\n      {command}\n{LAST}"
    line = 8 if "\n" in command else 7
    assert found_in(steps, PLAIN) == ([f"{line} {message}"] if is_quoted else [])


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("|\n    one\n\n    ${{x}}", 9),
        ("|-\n\n\n    ${{x}}", 9),
        (">\n    one\n    ${{x}}", 6),
        ('"one\n    ${{x}}"', 6),
        ("one\n    ${{x}}", 6),
        ("\n    one ${{x}}", 7),
    ],
)
def test_a_finding_about_a_template_has_its_position(text: str, line: int) -> None:
    """In a `|` block the line is exact; in folded or quoted text it is that of the value."""
    (message,) = found_in(f"- id: a\n  agent: scout\n  task: {text}\n", PLAIN)
    assert message.startswith(f"{line} error template-unknown")


def test_positions_in_a_fenced_flow_are_lines_of_the_file() -> None:
    steps = "- id: a\n  agent: scout\n  task: |\n    one\n    ${{x}}\n"
    (message,) = found_in(steps, PLAIN, "---\nname: x\ndescription: d\n---\nsteps:\n")
    assert message.startswith("10 error template-unknown")
