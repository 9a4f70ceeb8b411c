"""Agents from files: how they are parsed, and the findings about invalid ones."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.agents.agent import ChatSettings
from penstock.agents.agent_file import KnownNames, ParsedAgent, parse_agent
from penstock.agents.agent_profile import AgentInput, AgentProfile, DisplayCard, Tier
from penstock.agents.agent_profile import ArchitectNotes as Notes
from penstock.core.events.flow_events import Output, ValueType
from penstock.resources.project.access import OPEN, Access
from tests.kit.agent_texts import agent_of, profile_of, said_of, said_of_head

FULL = """---
name: scout
description: Finds topics.
model: fast
thinking: high
tools: [look_up, "read"]
skills: my-backend-docs, style
inputs: [place, { name: depth, description: how deep }]
outputs: [topics, { name: count, type: number }]
interactive: false
output: topics.md
context_files: [README.md]
context: docs/a.md, README.md
access: { read: "src/**, *.md", write: [gen/**], bash: { deny: [curl] } }
card: { type: search, label: Scout, metric: topics, role: finder }
architect: { use_when: now, produces: x, depends_on: no, domain: web }
max_turns: 3
x-note: mine
---

Find topics at ${{input.place}}.
"""


def test_a_chat_reads_its_part_of_an_agent_file() -> None:
    agent = agent_of(FULL)
    assert (agent.name, agent.description, agent.model) == ("scout", "Finds topics.", "fast")
    assert agent.instructions == "Find topics at ${{input.place}}."
    assert agent.settings == ChatSettings(enabled_tools=("look_up", "read"), max_iterations=3)
    assert agent.profile.source == "file"


def test_a_flow_reads_the_whole_of_it() -> None:
    read = parse_agent(FULL, "agents/scout.md")
    assert read.findings == []
    assert read.agent is not None
    profile = read.agent.profile
    assert profile == AgentProfile(
        tier=Tier.LOCAL,
        file="agents/scout.md",
        content_hash=profile.content_hash,
        thinking="high",
        tools=("look_up", "read"),
        handbooks=("my-backend-docs", "style"),
        inputs=(AgentInput(name="place"), AgentInput(name="depth", description="how deep")),
        body_inputs=frozenset({"place"}),
        outputs=(
            Output(name="topics"),
            Output(name="count", value_type=ValueType.NUMBER, is_required=True),
        ),
        is_interactive=False,
        output="topics.md",
        context_files=("README.md", "docs/a.md"),
        access=Access(agent="scout", read=("src/**", "*.md"), write=("gen/**",), deny=("curl",)),
        card=DisplayCard(card_type="search", label="Scout", metric="topics", role="finder"),
        purpose=Notes(use_when="now", produces="x", depends_on="no", domain="web"),
        max_turns=3,
    )


def test_missing_fields_have_the_documented_defaults() -> None:
    profile = profile_of("description: d")
    empty = AgentProfile(file="agents/a.md", content_hash=profile.content_hash)
    assert profile.access == Access(agent="a", read=OPEN.read, write=OPEN.write, deny=OPEN.deny)
    assert profile.purpose == Notes(use_when="d")
    assert (profile.tools, profile.is_interactive, profile.max_turns) == ((), True, None)
    assert (profile.thinking, profile.card, profile.outputs) == (None, empty.card, ())


def test_a_key_without_a_value_counts_as_missing() -> None:
    keys = "description model thinking skills inputs outputs interactive output context_files"
    more = "context access card architect max_turns labels"
    head = "\n".join(f"{key}:" for key in f"{keys} {more}".split())
    assert said_of_head(head) == []
    assert profile_of(head).purpose == Notes()


def test_a_card_shows_any_value() -> None:
    """§3, `card.*`: "for displays; any value"."""
    card = profile_of("card: {type: 5, label: true, metric: [a, 1], role: {x: null}}").card
    assert card == DisplayCard(card_type="5", label="true", metric='["a",1]', role='{"x":null}')


def test_the_hash_changes_with_the_text() -> None:
    one, same, other = (profile_of(f"card: {{ label: {each} }}") for each in "aab")
    assert one.content_hash == same.content_hash != other.content_hash


@pytest.mark.parametrize(
    ("head", "declared", "offered"),
    [
        ("description: d", (), None),
        ("tools:", (), ()),
        ("tools: []", (), ()),
        ("tools: b, c", ("b", "c"), ("b", "c")),
        ("tools: [b, c, b]", ("b", "c"), ("b", "c")),
    ],
)
def test_tools_are_a_list_or_one_text(
    head: str, declared: tuple[str, ...], offered: tuple[str, ...] | None
) -> None:
    """T45: comma text and list grant the same. A chat of one that declares none has them all."""
    agent = agent_of(f"---\nname: a\n{head}\n---\n")
    assert (agent.profile.tools, agent.settings.enabled_tools) == (declared, offered)


def test_a_chat_grants_at_most_fifty_turns() -> None:
    agent = agent_of("---\nname: a\nmax_turns: 1000\n---\n")
    assert (agent.profile.max_turns, agent.settings.max_iterations) == (1000, 50)


OUTPUTS = "a list of names or of {name, description, type, pattern, required}"
RESERVED = (
    "reserved: status, summary, artifacts, files, fullOutput, output, branch, error, finish, "
    "outputs, visits"
)
WRONG = [
    ("model: 5", 'wrong-type: "model" must be a model name, found number 5'),
    ("description: 5", 'wrong-type: "description" must be text, found number 5'),
    (
        "thinking: none",
        (
            'bad-value: "thinking" must be one of off, minimal, low, medium, high, xhigh, max, '
            'found string "none"'
        ),
    ),
    ("tools: 5", 'wrong-type: "tools" must be a list of tool names, found number 5'),
    (
        "tools: { b: c }",
        'wrong-type: "tools" must be a list of tool names, found object {"b": "c"}',
    ),
    ("tools: [5]", 'wrong-type: "tools[0]" must be a tool name, found number 5'),
    ("skills: 5", 'wrong-type: "skills" must be a list of handbook names, found number 5'),
    (
        "inputs: a",
        'wrong-type: "inputs" must be a list of names or of {name, description}, found string "a"',
    ),
    (
        "inputs: [5]",
        'wrong-type: "inputs[0]" must be a name or {name, description}, found number 5',
    ),
    ("inputs: [{}]", 'missing-field: missing required field "name" in inputs[0]'),
    ("inputs: [a b]", 'bad-input-name: input "a b" must be an identifier'),
    ("inputs: [{name: 1a}]", 'bad-input-name: input "1a" must be an identifier'),
    ("outputs: a", f'wrong-type: "outputs" must be {OUTPUTS}, found string "a"'),
    ("outputs: [a, a]", 'duplicate-output: output "a" is declared twice'),
    ("outputs: [files]", f'reserved-output: output "files" is a reserved name; {RESERVED}'),
    (
        "outputs: [{name: a, type: text}]",
        (
            'bad-value: "outputs[0].type" must be string, number, boolean, object or array, '
            'found string "text"'
        ),
    ),
    (
        "outputs: [{name: a, pattern: 5}]",
        'wrong-type: "outputs[0].pattern" must be text, found number 5',
    ),
    ("interactive: no", 'wrong-type: "interactive" must be true or false, found string "no"'),
    ("output: [a]", 'wrong-type: "output" must be text, found array ["a"]'),
    ("context_files: 5", 'wrong-type: "context_files" must be a list of paths, found number 5'),
    ("context: [5]", 'wrong-type: "context[0]" must be a path, found number 5'),
    ("fork_session: 1", 'wrong-type: "fork_session" must be true or false, found number 1'),
    ("access: all", 'wrong-type: "access" must be a mapping, found string "all"'),
    ("access: {read: 5}", 'wrong-type: "access.read" must be a list of patterns, found number 5'),
    ("access: {write: [5]}", 'wrong-type: "access.write[0]" must be a pattern, found number 5'),
    (
        "access: {bash: {deny: 5}}",
        'wrong-type: "access.bash.deny" must be a list of patterns, found number 5',
    ),
    ("architect: {domain: 5}", 'wrong-type: "architect.domain" must be text, found number 5'),
    ("architect: {domain: []}", 'wrong-type: "architect.domain" must be text, found array []'),
    (
        "max_turns: 0",
        'bad-value: "max_turns" must be a whole number from 1 to 1000, found number 0',
    ),
    (
        "max_turns: 1001",
        'bad-value: "max_turns" must be a whole number from 1 to 1000, found number 1001',
    ),
    (
        "max_turns: true",
        'wrong-type: "max_turns" must be a whole number from 1 to 1000, found boolean true',
    ),
    ("selected_skills: [1]", 'wrong-type: "selected_skills[0]" must be a skill id, found number 1'),
    ("labels: 1", 'wrong-type: "labels" must be a list of texts, found number 1'),
]


@pytest.mark.parametrize(("head", "expected"), WRONG)
def test_an_invalid_field_excludes_the_agent_and_is_named(head: str, expected: str) -> None:
    """`"{field}" must be {wanted}, found {found}`, error, at the value."""
    errors = [each for each in said_of_head(head) if " error " in each]
    assert errors == [f"3 error {expected}"]
    assert parse_agent(f"---\nname: a\n{head}\n---\n", "a.md").agent is None


NAMELESS = (
    '1 error missing-field: missing required field "name"; add "name:" at the top of the file'
)


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        ("description: d", NAMELESS),
        ("name:", NAMELESS),
        ("name: a b", '2 error bad-value: "name" must be an agent name, found string "a b"'),
        ("name: 5", '2 error wrong-type: "name" must be an agent name, found number 5'),
        (
            f"name: {'a' * 65}",
            f'2 error bad-value: "name" must be an agent name, found string "{"a" * 59}…"',
        ),
    ],
)
def test_an_agent_needs_a_name(head: str, expected: str) -> None:
    assert said_of(f"---\n{head}\n---\n") == [expected]


UNKNOWN = [
    ("tols: []", 'unknown field "tols" in the agent; did you mean "tools"?'),
    ("zzzzzzz: 1", 'unknown field "zzzzzzz" in the agent'),
    ("access: {raed: []}", 'unknown field "raed" in access; did you mean "read"?'),
    ("access: {bash: {dney: []}}", 'unknown field "dney" in access.bash; did you mean "deny"?'),
    ("card: {lable: x}", 'unknown field "lable" in card; did you mean "label"?'),
    ("architect: {use: x}", 'unknown field "use" in architect'),
    ("inputs: [{name: b, typ: x}]", 'unknown field "typ" in inputs[0]'),
    ("outputs: [{name: b, typ: x}]", 'unknown field "typ" in outputs[0]; did you mean "type"?'),
]


@pytest.mark.parametrize(("head", "expected"), UNKNOWN)
def test_an_unknown_field_is_a_warning_and_the_agent_works(head: str, expected: str) -> None:
    assert said_of_head(head) == [f"3 warning unknown-field: {expected}"]
    assert profile_of(head) is not None


@pytest.mark.parametrize("head", ["x-note: 1", "access: {x-why: 1}", "card: {x-colour: red}"])
def test_keys_of_the_authors_own_are_ignored(head: str) -> None:
    """Keys that begin with `x-` are ignored everywhere."""
    assert said_of_head(head) == []


def test_findings_are_sorted_by_line_with_errors_first() -> None:
    text = "---\nname: a\nmax_turns: 0\ntols: 1\n---\n${{bad}}"
    findings = parse_agent(text, "a.md").findings
    assert [(each.line, each.code) for each in findings] == [
        (1, "missing-description"),
        (1, "missing-tools"),
        (3, "bad-value"),
        (4, "unknown-field"),
        (6, "body-template-unknown"),
    ]


LOOSE = """---
name: a
description: "pass" or "fail"
model: @coding
tools:
  - read
interactive: false
max_turns: 12
outputs:
  - name: verdict
    type: string
    required: false
access:
  read: [src/**, docs/*.md]
  bash:
    deny:
      - rm -rf *
---
Go.
"""


def test_unquoted_forms_are_converted_to_their_types() -> None:
    """Values read this way are strings and are converted by the field (`true`, `3`)."""
    agent = agent_of(LOOSE)
    profile = agent.profile
    assert (agent.description, agent.model) == ('"pass" or "fail"', "@coding")
    assert (profile.is_interactive, profile.max_turns) == (False, 12)
    assert profile.outputs == (Output(name="verdict", value_type=ValueType.STRING),)
    assert (profile.access.read, profile.access.deny) == (("src/**", "docs/*.md"), ("rm -rf *",))
    assert [each.split(":")[0] for each in said_of(LOOSE)] == ["3 warning front-matter-loose"]


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        ("max_turns: many", 'error bad-value: "max_turns" must'),
        ("interactive: perhaps", 'error wrong-type: "interactive" must'),
    ],
)
def test_values_of_another_type_are_still_refused(head: str, expected: str) -> None:
    found = said_of_head(f"{head}\nmodel: @x")
    assert found[0].startswith(f"3 {expected.replace('bad-value', 'wrong-type')}")


SEED = """---
name: my-agent
skills: my-backend-docs
---
You have access to backend documentation. Use `skill_read` to look up:
- skill: my-backend-docs
- file: (see SKILL.md for available files)
"""


def test_the_usage_pattern_of_handbooks_loads_with_two_warnings() -> None:
    """T17: usage pattern with `skills:` (that file as it is loads, with two warnings)."""
    read = parse_agent(SEED, "agents/my-agent.md", KnownNames(handbooks=["my-backend-docs"]))
    assert read.agent is not None
    assert [str(each) for each in read.findings] == [
        (
            'agents/my-agent.md:1:1: warning missing-description: missing field "description"; '
            "one line is enough; people and flow-architect choose agents by it"
        ),
        (
            'agents/my-agent.md:1:1: warning missing-tools: missing field "tools": the agent has '
            'no declared tools; write "tools:" with nothing after it if this is meant'
        ),
    ]


@pytest.mark.parametrize(
    ("text", "code"),
    [("no fence", "no-front-matter"), ("---\nname: a\n", "front-matter-open")],
)
def test_without_front_matter_nothing_else_is_reported(text: str, code: str) -> None:
    read = parse_agent(text, "a.md")
    assert (read.agent, [each.code for each in read.findings]) == (None, [code])


KEYS = st.sampled_from(
    ["name", "tools", "skills", "inputs", "outputs", "access", "card", "architect", "context"]
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(KEYS | st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=8,
)


@settings(max_examples=15, suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(KEYS, VALUES))
def test_no_value_of_any_field_raises(values: dict[str, Any]) -> None:
    lines = "\n".join(f"{key}: {value!r}" for key, value in values.items())
    known = KnownNames(tools=(), skills=(), handbooks=(), roles=())
    assert isinstance(parse_agent(f"---\n{lines}\n---\n", "a.md", known), ParsedAgent)


@given(st.text(), st.text())
def test_no_text_raises(head: str, body: str) -> None:
    assert isinstance(parse_agent(head, "a.md"), ParsedAgent)
    text = f"---\n{head}\n---\n{body}"
    assert isinstance(parse_agent(text, "a.md", KnownNames(tools=(), roles=())), ParsedAgent)


@pytest.mark.chaos
@pytest.mark.parametrize(
    "text",
    [
        "---\n" + "a:\n" * 10_000 + "---\n",
        "---\n" + "- " * 10_000 + "\n---\n",
        "---\nname: " + "[" * 10_000 + "\n---\n",
        "---\nname: a\n---\n" + "${{" * 20_000,
        "---\nname: a\n---\n" + "${{input.x}}" * 10_000,
        "---\nname: \ud800\n---\n\ud800",
    ],
)
def test_hostile_files_are_read_quickly(text: str) -> None:
    read = parse_agent(text, "a.md", KnownNames(tools=(), roles=()))
    assert read.agent is not None or read.findings
