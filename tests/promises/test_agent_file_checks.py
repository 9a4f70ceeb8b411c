"""Checks of the names in agent files."""

import pytest

from penstock.agents.agent_file import KnownNames, body_inputs, parse_agent
from tests.kit.agent_texts import said_of, said_of_head

KNOWN = KnownNames(
    tools=["look_up", "send", "transfer_to_up"],
    skills=["research", "zip"],
    handbooks=["my-backend-docs"],
    roles=["writing"],
    families={"sheets": ("csv_read", "csv_create")},
)
OF_A_FAMILY = "it is a family of built-in tools; name the ones you need: csv_read, csv_create"
ROLES = "known: architect, coding, compact, fast, planning, research, vision, writing"


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        (
            "tools: [look_up, raed]",
            '3 error unknown-tool: unknown tool "raed"; did you mean "read"?',
        ),
        ("tools: look_pu", '3 error unknown-tool: unknown tool "look_pu"; did you mean "look_up"?'),
        (
            "handoffs: [a]",
            '3 error bad-handoff: agent "a" hands off to itself; remove it',
        ),
        (
            "handoffs: [a.b, a_b]",
            (
                '3 error bad-handoff: hand-offs to "a.b" and "a_b" would be one tool, '
                '"transfer_to_a_b"; rename one agent'
            ),
        ),
        (
            "handoffs: up",
            (
                '3 error bad-handoff: the hand-off to "up" is the tool "transfer_to_up", '
                "which exists; rename that tool"
            ),
        ),
        (
            "handoffs: 7",
            '3 error wrong-type: "handoffs" must be a list of agent names, found number 7',
        ),
        ("tools: sheets", f'3 error unknown-tool: unknown tool "sheets"; {OF_A_FAMILY}'),
        ("tools:\n  - send\n  - zzzzzzzz", '5 error unknown-tool: unknown tool "zzzzzzzz"'),
        (
            "tools: [subagent]",
            '3 warning tool-not-granted: "subagent" is only for the main session',
        ),
        (
            "tools: [agent_catalog]",
            '3 warning tool-not-granted: "agent_catalog" is only for flow-architect',
        ),
        (
            "tools: [agent_write]",
            '3 warning tool-not-granted: "agent_write" is only for flow-architect',
        ),
        (
            "tools: [flow_write]",
            '3 warning tool-not-granted: "flow_write" is only for flow-architect',
        ),
        (
            "skills: my-backend-doc",
            (
                '3 warning unknown-handbook: unknown skill "my-backend-doc"; '
                'did you mean "my-backend-docs"?'
            ),
        ),
        ("skills: [zzzzzzzzzzzz]", '3 warning unknown-handbook: unknown skill "zzzzzzzzzzzz"'),
        ('model: "@writer"', f'3 warning unknown-role: unknown model role "@writer"; {ROLES}'),
        ('model: "@writer:high"', f'3 warning unknown-role: unknown model role "@writer"; {ROLES}'),
        ("fork_session: true", '3 warning no-effect: "fork_session" is accepted and has no effect'),
        (
            "access: {read: [/etc/**]}",
            (
                '3 warning odd-pattern: access pattern "/etc/**" can never match: patterns are '
                "relative to the project"
            ),
        ),
        (
            "access:\n  write: a/../b, src/**",
            (
                '4 warning odd-pattern: access pattern "a/../b" can never match: patterns are '
                "relative to the project"
            ),
        ),
        ("outputs: [a b]", '3 warning bad-output-name: output "a b" is not an identifier'),
        (
            "outputs: [{name: a, pattern: '('}]",
            (
                '3 warning bad-pattern: pattern of output "a" is not a regular expression: '
                "missing ), unterminated subpattern at position 0; it is ignored"
            ),
        ),
        (
            "selected_skills: [zip, resaerch]",
            (
                '3 error unknown-skill-ref: "resaerch" in "selected_skills" is not a skill of '
                'this bundle or a built-in; did you mean "research"?'
            ),
        ),
        (
            "settings: {skills: [resaerch]}",
            (
                '3 error unknown-skill-ref: "resaerch" in "settings.skills" is not a skill of '
                'this bundle or a built-in; did you mean "research"?'
            ),
        ),
    ],
)
def test_a_missing_name_is_a_finding(head: str, expected: str) -> None:
    assert said_of_head(head, KNOWN) == [expected]


@pytest.mark.parametrize(
    "head",
    [
        "tools: read, write, edit, grep, find, ls, bash",
        "tools: [finish, ask_user, skill_read]",
        "tools: [look_up, send]",
        "skills: my-backend-docs",
        'model: "@fast"',
        'model: "@writing:low"',
        "model: openai/gpt-9:high",
        "access: {read: [a..b, '**'], bash: {deny: ['rm ../*', /bin/sh]}}",
        "selected_skills: [zip]",
    ],
)
def test_existing_names_give_no_finding(head: str) -> None:
    assert said_of_head(head, KNOWN) == []


@pytest.mark.parametrize(
    "head", ["tools: [x]", "skills: [x]", "selected_skills: [x]", 'model: "@x"']
)
def test_unknown_inventories_are_not_checked(head: str) -> None:
    assert said_of_head(head) == []


def test_the_architect_has_the_tools_of_the_architect() -> None:
    text = "---\nname: flow-architect\ntools: agent_catalog, agent_write, flow_write\n---\n"
    assert said_of(text, KNOWN) == []


SINGLES = [(7, "{task}"), (8, "{ input.a }"), (8, "{input.a}"), (8, "{fork.x.answer}")]


def single(line: int, text: str) -> str:
    said = f'{line} warning template-single-brace: "{text}" in the body is not expanded'
    return f'{said}; write "${{{{{text.strip("{ }")}}}}}"'


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (
            "See ${{input.b}}.",
            [
                (
                    '7 warning body-input-unknown: the body reads "${{input.b}}", which inputs: '
                    "does not declare"
                )
            ],
        ),
        (
            "a\n${{ input.b }} ${{input.b}}\n${{input.b}}",
            [
                (
                    '8 warning body-input-unknown: the body reads "${{input.b}}", which inputs: '
                    "does not declare"
                )
            ],
        ),
        (
            "${{ secrets.X }}\n${{",
            [
                '7 warning body-template-unknown: "${{ secrets.X }}" in the body is left as it is',
                '8 warning body-template-unknown: "${{" in the body is left as it is',
            ],
        ),
        (
            "${{input.a.b}}",
            ['7 warning body-template-unknown: "${{input.a.b}}" in the body is left as it is'],
        ),
        ("${{input.a}} ${{task}} ${{result.x.y}} ${{config.K}} $${{x}}", []),
        ("{tasks} {{task}} {input} ${task} {result.x.y", []),
        (
            "Do {task},\nthen { input.a } and {input.a}; again {task}. {fork.x.answer}",
            [single(*each) for each in SINGLES],
        ),
        ("", []),
    ],
)
def test_a_missing_variable_of_the_instructions_is_a_finding_with_its_line(
    body: str, expected: list[str]
) -> None:
    assert said_of(f"---\nname: n\n\ninputs: [a]\n---\n\n{body}\n") == expected


def test_the_inputs_that_instructions_read_are_known_declared_or_not() -> None:
    assert body_inputs("${{input.a}} ${{ input.b }} ${{task}} $${{input.c}}") == {"a", "b"}


@pytest.mark.parametrize(
    ("head", "codes"),
    [
        ("name: a", ["missing-description", "missing-tools"]),
        ("name: a\ntools:", ["missing-description"]),
        ("name: a\ndescription: ''\ntools: []", ["missing-description"]),
        ("name: a\ndescription: d", ["missing-tools"]),
        ("name: a\ndescription: d\nselected_skills: [zip]", []),
        ("name: assistant\ndescription: d", []),
    ],
)
def test_an_agent_without_tools_or_description_is_a_finding(head: str, codes: list[str]) -> None:
    """An agent that selects skills has tools of them; the assistant of chats has every tool."""
    findings = parse_agent(f"---\n{head}\n---\n", "a.md").findings
    assert [each.code for each in findings] == codes
    assert {each.line for each in findings} <= {1}


@pytest.mark.parametrize(
    ("head", "name"),
    [("name: scout\nmodel: 5", "scout"), ("name: no spaces", ""), ("model: fast", "")],
)
def test_a_broken_file_keeps_its_name_if_the_name_is_valid(head: str, name: str) -> None:
    read = parse_agent(f"---\n{head}\n---\n", "agents/a.md")
    assert read.agent is None
    assert read.name == name
