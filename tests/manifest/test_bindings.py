"""Secrets and durable values that a tool declares."""

from pathlib import Path

import pytest

from penstock.manifest.bindings import StateBinding, VaultKey
from tests.kit.manifests import findings, load, tool

STATE = """
state:
  - name: session_counter
    key_prefix: counter.session.
    scope_kind: session
  - name: shared_counter
    key_prefix: counter.shared.
    scope_kind: shared
    scope_id: service
"""
VAULT = """
vault:
  - key: api_token
    scope_kinds: [profile, shared]
"""


def test_the_state_example_has_no_findings(tmp_path: Path) -> None:
    """B16: the `state` example loads. B17: scope kinds session and shared."""
    bundle = load(tmp_path, {"a.tool.yaml": tool(STATE)})
    session, shared = bundle.tools["a"].state
    assert not bundle.diagnostics
    assert session == StateBinding(
        name="session_counter", key_prefix="counter.session.", scope_kind="session"
    )
    assert (shared.scope_kind, shared.scope_id) == ("shared", "service")


def test_the_vault_example_has_no_findings(tmp_path: Path) -> None:
    """B18: the `vault` example loads. B19: "requires the script to fetch secrets explicitly"."""
    bundle = load(tmp_path, {"a.tool.yaml": tool(VAULT)})
    both = frozenset({"profile", "shared"})
    assert not bundle.diagnostics
    assert bundle.tools["a"].vault == (VaultKey(key="api_token", scope_kinds=both),)


WRONG = [
    ("vault: [{scope_kinds: [shared]}]", '9: error missing-key: "vault[0]" must have "key"'),
    ("vault: [{key: k}]", '9: error missing-key: "vault[0]" must have "scope_kinds"'),
    ("vault: [k]", '9: error wrong-type: "vault[0]" must be a mapping, found string "k"'),
    (
        "vault: [{key: -k, scope_kinds: [shared]}]",
        '15: error bad-value: "vault[0].key" must be a vault key, found string "-k"',
    ),
    (
        "vault: [{key: k, scope_kinds: []}]",
        (
            '31: error bad-value: "vault[0].scope_kinds" must be a non-empty list of profile and '
            "shared, found array []"
        ),
    ),
    (
        "vault: [{key: k, scope_kinds: [task]}]",
        (
            '31: error bad-value: "vault[0].scope_kinds" must be a non-empty list of profile and '
            'shared, found array ["task"]'
        ),
    ),
    (
        "vault: [{key: k, scope_kinds: [shared, shared]}]",
        (
            '31: error bad-value: "vault[0].scope_kinds" must be a non-empty list of profile and '
            'shared, found array ["shared", "shared"]'
        ),
    ),
    (
        "vault: [{key: k, scope_kinds: shared}]",
        (
            '31: error wrong-type: "vault[0].scope_kinds" must be a non-empty list of profile and '
            'shared, found string "shared"'
        ),
    ),
    (
        "vault: [{key: k, scope_kinds: [shared]}, {key: k, scope_kinds: [profile]}]",
        '48: error declared-twice: vault key "k" is declared twice in "vault"',
    ),
    (
        "vault: [{key: k, scope_kind: [shared], scope_kinds: [shared]}]",
        (
            '18: error unknown-key: unknown key "scope_kind" in "vault[0]"; '
            'did you mean "scope_kinds"?'
        ),
    ),
    (
        "state: [{name: n, key_prefix: p, scope_kind: shared}]",
        '9: error state-scope-id: "state[0]" needs "scope_id" because scope_kind is shared',
    ),
    (
        "state: [{name: n, key_prefix: p, scope_kind: task, scope_id: x}]",
        (
            '52: error state-scope-id: "state[0]" must not have "scope_id": it is only for '
            "scope_kind shared"
        ),
    ),
    (
        "state: [{name: n, key_prefix: p, scope_kind: user}]",
        (
            '46: error bad-value: "state[0].scope_kind" must be one of profile, session, task, '
            "shared, "
            'found string "user"'
        ),
    ),
    (
        "state: [{name: a b, key_prefix: p, scope_kind: task}]",
        '16: error bad-value: "state[0].name" must be an id, found string "a b"',
    ),
    (
        "state: [{name: n, key_prefix: '', scope_kind: task}]",
        (
            '31: error bad-value: "state[0].key_prefix" must be a non-empty string of at most '
            '256 bytes, found string ""'
        ),
    ),
    (
        "state: [{name: n, key_prefix: p, scope_kind: shared, scope_id: a b}]",
        '64: error bad-value: "state[0].scope_id" must be a scope id, found string "a b"',
    ),
    (
        (
            "state: [{name: n, key_prefix: p, scope_kind: task}, "
            "{name: n, key_prefix: q, scope_kind: task}]"
        ),
        '60: error declared-twice: state binding "n" is declared twice in "state"',
    ),
    (
        (
            "state: [{name: n, key_prefix: ab, scope_kind: task}, "
            "{name: m, key_prefix: a, scope_kind: task}]"
        ),
        (
            '76: error state-overlap: state bindings "n" and "m" overlap for scope_kind task: '
            '"a" is a prefix of "ab"'
        ),
    ),
    (
        (
            "state: [{name: n, key_prefix: a, scope_kind: shared, scope_id: x}, "
            "{name: m, key_prefix: a, scope_kind: shared, scope_id: y}]"
        ),
        (
            '90: error state-overlap: state bindings "n" and "m" overlap for scope_kind shared: '
            '"a" is a prefix of "a"'
        ),
    ),
]


@pytest.mark.parametrize(("line", "message"), WRONG)
def test_an_invalid_binding_is_reported_at_its_position(
    tmp_path: Path, line: str, message: str
) -> None:
    """Two bindings of one scope kind overlap, also when their `scope_id` differ."""
    assert findings(tmp_path, {"a.tool.yaml": tool(line)}) == [f"a.tool.yaml:5:{message}"]


def test_prefixes_of_different_scopes_do_not_overlap(tmp_path: Path) -> None:
    line = "{name: %s, key_prefix: a, scope_kind: %s}"
    both = ", ".join(line % each for each in (("n", "task"), ("m", "session")))
    assert findings(tmp_path, {"a.tool.yaml": tool(f"state: [{both}]")}) == []


def test_a_too_long_list_of_bindings_is_refused_before_pairs_are_compared(tmp_path: Path) -> None:
    bindings = ", ".join(f"{{name: n{n}, key_prefix: p, scope_kind: task}}" for n in range(3000))
    reported = findings(tmp_path, {"a.tool.yaml": tool(f"state: [{bindings}]")})
    assert reported[0].endswith("; it has 3000 items, the limit is 64")
    assert len(reported) == 1 + 64 * 63 / 2
