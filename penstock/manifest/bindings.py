"""`vault` and `state` of a tool: the secrets and the durable values that its script may use."""

import re
from typing import Any

from msgspec import Struct

from penstock.manifest.fields import Field, Node, quoted
from penstock.manifest.kinds import ID, ListOf, OneOf, RecordKind, SetOf, Text, from_fields

SCOPES = ("profile", "session", "task", "shared")
VAULT_SCOPES = ("profile", "shared")
MAX_BINDINGS = 64
_VAULT_KEY = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
_SCOPE_ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:-]{0,127}")


class VaultKey(Struct, frozen=True, kw_only=True):
    """A secret that the script may ask for."""

    key: str
    scope_kinds: frozenset[str]


class StateBinding(Struct, frozen=True, kw_only=True):
    """A prefix of keys that the script may read and write."""

    name: str
    key_prefix: str
    scope_kind: str
    scope_id: str | None = None
    """Only for a shared scope."""


def _state_binding(node: Node, values: dict[str, Any]) -> StateBinding:
    is_shared = values["scope_kind"] == "shared"
    if is_shared and "scope_id" not in node.value:
        message = f'{node.title} needs "scope_id" because scope_kind is shared'
        node.refuse("state-scope-id", message)
    if values["scope_kind"] and not is_shared and "scope_id" in node.value:
        message = f'{node.title} must not have "scope_id": it is only for scope_kind shared'
        node.refuse("state-scope-id", message, at=node.at("scope_id").key_place)
    return StateBinding(**values)


def refuse_overlaps(state: Node) -> None:
    """Report prefixes of one scope kind that start with another one."""
    bindings = state.value[:MAX_BINDINGS] if isinstance(state.value, list) else []
    before: list[tuple[str, str, str]] = []
    for number, binding in enumerate(bindings):
        each = binding if isinstance(binding, dict) else {}
        name, prefix, kind = each.get("name"), each.get("key_prefix"), each.get("scope_kind")
        if not (isinstance(name, str) and isinstance(prefix, str) and kind in SCOPES) or not prefix:
            continue
        for other, start, scope in before:
            if scope == kind and (prefix.startswith(start) or start.startswith(prefix)):
                short, long = sorted((start, prefix), key=len)
                message = (
                    f"state bindings {quoted(other)} and {quoted(name)} overlap for scope_kind"
                )
                prefixes = f"{quoted(short)} is a prefix of {quoted(long)}"
                place = state.at(number, "key_prefix")
                place.refuse("state-overlap", f"{message} {kind}: {prefixes}")
        before.append((name, prefix, str(kind)))


VAULT_FIELDS = (
    Field(
        key="key",
        kind=Text(expected="a vault key", form=_VAULT_KEY),
        required=True,
        meaning="The key that the script passes to `flo.vault.get`.",
    ),
    Field(
        key="scope_kinds",
        kind=SetOf(words=VAULT_SCOPES, expected="a non-empty list of profile and shared"),
        required=True,
        meaning="The kinds of owners that the secret may have.",
    ),
)
STATE_FIELDS = (
    Field(
        key="name",
        kind=Text(expected="an id", form=ID),
        required=True,
        meaning="A label, unique in the tool.",
    ),
    Field(
        key="key_prefix",
        kind=Text(expected="a non-empty string of at most 256 bytes", least=1, max_bytes=256),
        required=True,
        meaning="The binding covers all keys with this prefix.",
    ),
    Field(
        key="scope_kind",
        kind=OneOf(words=SCOPES),
        required=True,
        meaning="The kind of owner of the values.",
    ),
    Field(
        key="scope_id",
        kind=Text(expected="a scope id", form=_SCOPE_ID),
        meaning="The id of the shared scope. Required for `shared`, else not allowed.",
    ),
)
VAULT = ListOf(
    item=RecordKind(fields=VAULT_FIELDS, build=from_fields(VaultKey)),
    expected="a list of {key, scope_kinds}",
    most=MAX_BINDINGS,
)
STATE = ListOf(
    item=RecordKind(fields=STATE_FIELDS, build=_state_binding),
    expected="a list of {name, key_prefix, scope_kind, scope_id}",
    most=MAX_BINDINGS,
)
