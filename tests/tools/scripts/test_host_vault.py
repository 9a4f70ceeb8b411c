"""Secrets that a manifest declares, and nothing of them that is written down."""

from typing import Any

import pytest

from penstock.core.events.events import SecretGiven
from penstock.core.state import Scope, ScopeKind
from tests.kit.hosts import asking

OWN = {"scope": "profile", "key": "token"}
TEAM = {"scope": "shared", "scope_id": "team", "key": "token"}
BAD: list[dict[str, Any]] = [
    {},
    {"scope": "profile"},
    {"scope": "profile", "key": ""},
    {"scope": "profile", "key": 1},
    {"scope": "shared", "key": "token"},
    {"scope": "shared", "scope_id": 1, "key": "token"},
    {"scope": "session", "key": "token"},
    {"scope": [], "key": "token"},
    {"key": "token"},
]
NAMES = ["vault.get", "vault.handle"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("wrong", BAD)
async def test_a_request_of_no_form_is_a_mistake(name: str, wrong: dict[str, Any]) -> None:
    host = await asking()
    assert await host.refusal(name, wrong) == "TypeError"


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("asked", "code"),
    [
        ({"scope": "profile", "key": "other"}, "VAULT_DENIED"),
        ({"scope": "profile", "key": "token\ud800"}, "VAULT_DENIED"),
        (TEAM, "VAULT_NOT_FOUND"),
    ],
)
async def test_what_is_not_declared_or_not_stored(name: str, asked: Any, code: str) -> None:
    host = await asking()
    assert await host.refusal(name, asked) == code


async def test_the_message_names_what_the_manifest_lacks() -> None:
    """V1."""
    host = await asking()
    settled = await host.ask("vault.get", {"scope": "profile", "key": "other"})
    assert settled.refusal
    said = '"script" does not declare the vault key "other" for scope profile'
    assert settled.refusal.detail.message == said


async def test_a_secret_is_given_as_it_is_and_not_recorded() -> None:
    host = await asking()
    assert await host.value("vault.get", **OWN) == "s3cr3t-value"
    assert "s3cr3t" not in repr(await host.bench.events())
    vault = host.bench.resources.vault
    assert vault
    mine = Scope(ScopeKind.PROFILE, host.bench.model.profile.profile_id)
    await vault.set(mine, "token", "another-value")
    host.begin()
    assert await host.value("vault.get", **OWN) == "another-value"


async def test_a_handle_is_inert_and_the_same_in_each_entry() -> None:
    host = await asking()
    handle = await host.value("vault.handle", **OWN)
    assert "s3cr3t" not in handle["placeholder"]
    host.begin()
    assert await host.value("vault.handle", **OWN) == handle


async def test_a_secret_of_others_is_had_by_the_name_of_their_scope() -> None:
    host = await asking()
    vault = host.bench.resources.vault
    assert vault
    await vault.set(Scope(ScopeKind.SHARED, "team"), "token", "ours-and-yours")
    assert await host.value("vault.get", **TEAM) == "ours-and-yours"


@pytest.mark.parametrize("name", NAMES)
async def test_the_log_says_which_secret_a_script_was_given(name: str) -> None:
    host = await asking()
    assert await host.refusal(name, {"scope": "profile", "key": "other"}) == "VAULT_DENIED"
    await host.value(name, **OWN)
    (given,) = [each for each in await host.bench.events() if isinstance(each, SecretGiven)]
    assert given.key == "token"
