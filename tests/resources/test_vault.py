"""Access to secrets, and their form on disk."""

from urllib.parse import quote

import pytest

from penstock.core.call_errors import VaultDenied
from penstock.core.scopes import Scope, ScopeKind
from penstock.manifest.bindings import VaultKey
from penstock.resources.vault import SecretHandles, permit_secret, warning_of

ANN = Scope(ScopeKind.PROFILE, "ann")
DECLARED = [
    VaultKey(key="both", scope_kinds=frozenset({"profile", "shared"})),
    VaultKey(key="mine", scope_kinds=frozenset({"profile"})),
]


PERMITTED = [
    ("both", ScopeKind.PROFILE, True),
    ("both", ScopeKind.SHARED, True),
    ("mine", ScopeKind.PROFILE, True),
    ("mine", ScopeKind.SHARED, False),
    ("none", ScopeKind.PROFILE, False),
    ("min", ScopeKind.PROFILE, False),
]


@pytest.mark.parametrize(("key", "kind", "permitted"), PERMITTED)
def test_a_tool_gets_what_it_declares(key: str, kind: ScopeKind, permitted: bool) -> None:
    """V1: "`key` and scope kind must be in the tool's `vault`, else `VAULT_DENIED`"."""
    if permitted:
        permit_secret("t", DECLARED, kind, key)
        return
    message = f'"t" does not declare the vault key "{key}" for scope {kind}'
    with pytest.raises(VaultDenied) as denied:
        permit_secret("t", DECLARED, kind, key)
    assert str(denied.value) == message


def test_a_short_secret_is_warned_of() -> None:
    """V5: "Values under 4 bytes cannot be redacted; setting one warns"."""
    assert "cannot be redacted" in (warning_of("abc") or "")
    assert warning_of("äbc") is None


def test_a_handle_is_a_random_text_that_opens_in_place() -> None:
    """V7: "an object whose string form is a random placeholder"."""
    handles = SecretHandles()
    one, two = handles.new("token", "s3 same"), handles.new("token", "s3 same")
    assert one != two
    assert "s3" not in one
    assert handles.open(f"Bearer {one}") == "Bearer s3 same"
    assert handles.open(f"q={two}&r", quote) == "q=s3%20same&r"
    assert handles.keys_in("x", f"a{one}b") == {"token"}


def test_handles_of_another_entry_are_inert() -> None:
    handle = SecretHandles().new("token", "s3same")
    other = SecretHandles()
    assert (other.open(handle), other.keys_in(handle)) == (handle, set())
    other.new("b", "other")
    assert (other.open(handle), other.keys_in(handle)) == (handle, set())
