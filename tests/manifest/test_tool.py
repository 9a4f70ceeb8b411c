"""Tools in files."""

from pathlib import Path

import pytest

from penstock.core.call import Effect, RetryPolicy
from penstock.manifest.bindings import StateBinding, VaultKey
from penstock.manifest.document import SourceRange
from penstock.manifest.execution import Execution
from penstock.manifest.tool import FIELDS, ToolLimits
from tests.kit.manifests import CAPTURE, PUBLISH, TOOL, findings, load, tool


def test_the_tool_example_has_no_findings(tmp_path: Path) -> None:
    """B06: the `capture_example` tool loads without diagnostics; `timeout_ms` is 30000."""
    files = {"web/c.tool.yaml": CAPTURE, "web/scripts/capture_example.mts": "export {}"}
    bundle = load(tmp_path, files)
    manifest = bundle.tools["capture_example"]
    assert not bundle.diagnostics
    assert (manifest.timeout_ms, manifest.file, manifest.line) == (30_000, "web/c.tool.yaml", 1)
    assert manifest.folder == "web"
    assert manifest.execution == Execution(
        script_file="scripts/capture_example.mts",
        script_at=SourceRange(line=12, column=16),
    )


def test_the_direct_call_example_has_no_findings(tmp_path: Path) -> None:
    """N23: the `publish_report` manifest loads without diagnostics."""
    files = {"p.tool.yaml": PUBLISH, "scripts/publish_report.mts": "export {}"}
    bundle = load(tmp_path, files)
    manifest = bundle.tools["publish_report"]
    assert not bundle.diagnostics
    assert (manifest.direct_call, manifest.script_tools) == (True, ("send_media_attachment",))


@pytest.mark.parametrize("key", ["name", "description", "input_schema", "execution"])
def test_each_missing_required_field_of_a_tool_is_reported(tmp_path: Path, key: str) -> None:
    """B04: every tool manifest "must include" name, description, input_schema, execution."""
    message = f'error missing-key: a tool manifest must have "{key}"'
    assert findings(tmp_path, {"a.tool.yaml": tool(**{key: ""})}) == [f"a.tool.yaml:1:1: {message}"]


def test_all_missing_fields_are_reported_in_one_pass(tmp_path: Path) -> None:
    """B04: all four left out: four at once."""
    reported = load(tmp_path, {"a.tool.yaml": "# nothing\nlabels: [a]\n"}).diagnostics
    assert [(each.code, each.line, each.column) for each in reported] == [("missing-key", 1, 1)] * 4


def test_an_omitted_field_has_its_default(tmp_path: Path) -> None:
    """B05: optional timeout_ms, retry_policy, vault, state; absent: defaults of §3."""
    manifest = load(tmp_path, {"a.tool.yaml": TOOL}).tools["a"]
    assert (manifest.timeout_ms, manifest.retry_policy) == (None, RetryPolicy())
    assert (manifest.vault, manifest.state, manifest.script_tools) == ((), (), ())
    assert (manifest.direct_call, manifest.idempotent, manifest.trusted_source) == (False,) * 3
    assert (manifest.effect, manifest.requires_approval) == (Effect.WRITE, False)
    assert (manifest.output_schema, manifest.egress, manifest.trust) == (None, None, None)
    assert (manifest.limits, manifest.labels) == (ToolLimits(), ())
    assert (manifest.requires_permissions, manifest.skill) == ((), None)


FULL = """
timeout_ms: 5
retry_policy: {max_attempts: 3, initial_backoff_ms: 0, multiplier: 1.5, max_backoff_ms: 1}
vault: [{key: k, scope_kinds: [shared]}]
state: [{name: n, key_prefix: p., scope_kind: task}]
direct_call: true
script_tools: [read_text_file, mcp__x__y]
requires_permissions: [p.send]
output_schema: {type: string}
effect: read
idempotent: true
requires_approval: {when: {required: [a]}}
egress: [api.example.com, "*.example.com", "http://a.b:65535", "*"]
labels: [x]
limits: {memory_mb: 16, nested_calls: 0, log_bytes: 1}
trust: ask
trusted_source: true
x-mine: [1]
"""


def test_every_field_of_a_full_tool_is_read(tmp_path: Path) -> None:
    """B05: present: taken."""
    bundle = load(tmp_path, {"a.tool.yaml": tool(FULL)})
    manifest = bundle.tools["a"]
    told = sorted(each.code for each in bundle.diagnostics)
    assert told == ["reserved-key", "reserved-key", "unverified-mcp-tool"]
    assert manifest.retry_policy == RetryPolicy(
        max_attempts=3, initial_backoff_ms=0, multiplier=1.5, max_backoff_ms=1
    )
    assert manifest.vault == (VaultKey(key="k", scope_kinds=frozenset({"shared"})),)
    assert manifest.state == (StateBinding(name="n", key_prefix="p.", scope_kind="task"),)
    assert manifest.limits == ToolLimits(memory_mb=16, nested_calls=0, log_bytes=1)
    assert (manifest.effect, manifest.trust, manifest.timeout_ms) == (Effect.READ, "ask", 5)
    assert manifest.requires_approval == {"when": {"required": ["a"]}}
    assert manifest.egress == ("api.example.com", "*.example.com", "http://a.b:65535", "*")


BOUNDS = [
    ("timeout_ms: 0", 'bad-value: "timeout_ms" must be an integer from 1 to 3600000'),
    ("timeout_ms: 30s", 'wrong-type: "timeout_ms" must be an integer from 1 to 3600000'),
    ("timeout_ms: true", 'wrong-type: "timeout_ms" must be an integer from 1 to 3600000'),
    ("timeout_ms: 3600001", 'bad-value: "timeout_ms" must be an integer from 1 to 3600000'),
    ("retry_policy: 3", 'wrong-type: "retry_policy" must be a mapping'),
    ("vault: {}", 'wrong-type: "vault" must be a list of {key, scope_kinds}'),
    ("state: x", 'wrong-type: "state" must be a list of {name, key_prefix, scope_kind, scope_id}'),
    ("direct_call: yes", 'wrong-type: "direct_call" must be true or false'),
    ("script_tools: a", 'wrong-type: "script_tools" must be a list of tool ids'),
    ("output_schema: true", 'wrong-type: "output_schema" must be a JSON Schema object'),
    ("effect: delete", 'bad-value: "effect" must be one of none, read, write'),
    ("idempotent: 1", 'wrong-type: "idempotent" must be true or false'),
    (
        "requires_approval: always",
        'wrong-type: "requires_approval" must be true, false or {when: schema}',
    ),
    (
        "egress: a.b",
        (
            'wrong-type: "egress" must be a list of host patterns such as api.example.com '
            "or *.example.com"
        ),
    ),
    ("labels: {}", 'wrong-type: "labels" must be a list of strings'),
    ("limits: []", 'wrong-type: "limits" must be a mapping'),
    ("trust: no", 'bad-value: "trust" must be one of off, ask, deny'),
    ("requires_permissions: p", 'wrong-type: "requires_permissions" must be a list of permission'),
]


@pytest.mark.parametrize(("line", "message"), BOUNDS)
def test_an_invalid_value_is_reported_at_its_position(
    tmp_path: Path, line: str, message: str
) -> None:
    reported = findings(tmp_path, {"a.tool.yaml": tool(line)})
    column = line.index(": ") + 3
    assert reported[0].startswith(f"a.tool.yaml:5:{column}: error {message}")


INSIDE = [
    (
        "retry_policy: {max_attempts: 11}",
        (
            '5:30: error bad-value: "retry_policy.max_attempts" must be an integer from 1 to 10, '
            "found number 11"
        ),
    ),
    (
        "retry_policy: {multiplier: 0.5}",
        (
            '5:28: error bad-value: "retry_policy.multiplier" must be a number from 1 to 10, '
            "found number 0.5"
        ),
    ),
    (
        "retry_policy: {attempts: 3}",
        (
            '5:16: error unknown-key: unknown key "attempts" in "retry_policy"; '
            'did you mean "max_attempts"?'
        ),
    ),
    (
        "limits: {memory_mb: 8}",
        (
            '5:21: error bad-value: "limits.memory_mb" must be an integer from 16 to 512, '
            "found number 8"
        ),
    ),
    (
        "script_tools: [5]",
        '5:16: error wrong-type: "script_tools[0]" must be a tool id, found number 5',
    ),
    (
        "requires_permissions: [' a']",
        (
            '5:24: error bad-value: "requires_permissions[0]" must be a permission id, '
            'found string " a"'
        ),
    ),
    (
        "requires_permissions: [p, q, p]",
        '5:30: error declared-twice: permission "p" is declared twice in "requires_permissions"',
    ),
    (
        "egress: [a.b, 'a b']",
        (
            '5:15: error bad-value: "egress[1]" must be a host pattern such as api.example.com '
            'or *.example.com, found string "a b"'
        ),
    ),
    *(
        (
            f"egress: ['a.b:{port}']",
            (
                '5:10: error bad-value: "egress[0]" must be a host pattern such as '
                f'api.example.com or *.example.com, found string "a.b:{port}"'
            ),
        )
        for port in ("0", "65536", "99999")
    ),
    (
        "requires_approval: {}",
        '5:1: error missing-key: "requires_approval" must have "when"',
    ),
    (
        "requires_approval: {when: {type: x}}",
        (
            '5:34: error bad-schema: "requires_approval.when" is not a valid JSON Schema '
            "(2020-12): "
            '"x" is not one of array, boolean, integer, null, number, object, string at /type'
        ),
    ),
    (
        "revert: b",
        (
            '5:9: error unknown-tool-ref: "b" in "revert" is not a tool of this bundle or a '
            'built-in; did you mean "a"?'
        ),
    ),
    (
        "trust: deny",
        '5:1: warning reserved-key: "trust" is reserved and has no effect yet',
    ),
    (
        "trusted_source: false",
        '5:1: warning reserved-key: "trusted_source" is reserved and has no effect yet',
    ),
    (
        "timeout: 5",
        (
            '5:1: error unknown-key: unknown key "timeout" in a tool manifest; '
            'did you mean "timeout_ms"?'
        ),
    ),
    (
        "nothing_like_it_at_all: 5",
        '5:1: error unknown-key: unknown key "nothing_like_it_at_all" in a tool manifest',
    ),
]


@pytest.mark.parametrize(("line", "message"), INSIDE)
def test_an_invalid_nested_value_is_reported_at_its_position(
    tmp_path: Path, line: str, message: str
) -> None:
    assert findings(tmp_path, {"a.tool.yaml": tool(line)}) == [f"a.tool.yaml:{message}"]


def test_a_too_long_list_is_reported_with_its_length(tmp_path: Path) -> None:
    listed = ", ".join(["read_text_file"] * 201)
    (finding, _) = findings(tmp_path, {"a.tool.yaml": tool(f"labels: [{listed}]\nx: 1")})
    shown = '["read_text_file", "read_text_file", "read_text_file", "rea…'
    message = f'"labels" must be a list of strings, found array {shown}'
    assert finding.endswith(f"{message}; it has 201 items, the limit is 32")


IDS = ["a b", "1a", "-a", "", "ä", "a/b", "a" * 65]


@pytest.mark.parametrize("name", IDS)
def test_an_invalid_id_is_reported_with_the_rule(tmp_path: Path, name: str) -> None:
    shown = name if len(name) <= 60 else f"{name[:59]}…"
    assert findings(tmp_path, {"a.tool.yaml": tool(name=f'"{name}"')}) == [
        (
            f'a.tool.yaml:1:7: error bad-id: "{shown}" is not a valid tool id: use letters, '
            'digits, "_", "." and "-", begin with a letter or "_", at most 64 characters'
        )
    ]


@pytest.mark.parametrize("text", ["", "x" * 4097])
def test_a_description_is_neither_empty_nor_too_long(tmp_path: Path, text: str) -> None:
    (finding,) = findings(tmp_path, {"a.tool.yaml": tool(description=f'"{text}"')})
    expected = "a non-empty string of at most 4096 characters"
    assert finding.startswith(
        f'a.tool.yaml:2:14: error bad-value: "description" must be {expected}'
    )


def test_every_field_has_a_meaning_and_an_expected_value() -> None:
    assert all(each.meaning.endswith(".") and each.kind.expected for each in FIELDS)
