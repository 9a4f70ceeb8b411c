"""Durable values: under the prefixes that a manifest declares, each written once."""

from typing import Any

import pytest

from tests.kit.hosts import asking

MINE = {"scope_kind": "session", "key": "mine.a"}
VERBS: dict[str, dict[str, Any]] = {
    "state.get": {},
    "state.put": {"value": 1},
    "state.patch": {"patch": {}},
    "state.append": {"item": 1},
    "state.delete": {},
}
BAD: list[dict[str, Any]] = [
    {"scope_id": "x"},
    {"scope_kind": None},
    {"scope_kind": []},
    {"key": None},
    {"key": ""},
    {"key": 1},
    {"key": "mine.\ud800"},
    {"key": "mine." + "x" * 600},
]
BAD_WRITES: list[tuple[str, dict[str, Any]]] = [
    ("state.put", {"ttl_seconds": 0}),
    ("state.put", {"ttl_seconds": "1"}),
    ("state.put", {"ttl_seconds": 31_536_001}),
    ("state.put", {"if_revision": 1}),
    ("state.patch", {"patch": [1]}),
    ("state.patch", {"patch": "x"}),
    ("state.delete", {"if_revision": []}),
]
BAD_LISTS: list[dict[str, Any]] = [
    {"limit": 0},
    {"limit": 1001},
    {"limit": "1"},
    {"limit": True},
    {"cursor": 1},
    {"key_prefix": 1},
    {"key_prefix": None},
    {"scope_id": "x"},
]


@pytest.mark.parametrize("wrong", BAD)
@pytest.mark.parametrize("name", VERBS)
async def test_a_request_of_no_form_is_a_mistake(name: str, wrong: dict[str, Any]) -> None:
    host = await asking()
    assert await host.refusal(name, MINE | VERBS[name] | wrong) == "TypeError"


@pytest.mark.parametrize(("name", "wrong"), BAD_WRITES)
async def test_a_write_of_no_form_is_a_mistake(name: str, wrong: dict[str, Any]) -> None:
    host = await asking()
    assert await host.refusal(name, MINE | VERBS[name] | wrong) == "TypeError"


@pytest.mark.parametrize("name", ["state.put", "state.patch", "state.append"])
async def test_a_write_of_nothing_is_a_mistake(name: str) -> None:
    host = await asking()
    assert await host.refusal(name, MINE) == "TypeError"


@pytest.mark.parametrize("wrong", BAD_LISTS)
async def test_a_list_of_no_form_is_a_mistake(wrong: dict[str, Any]) -> None:
    host = await asking()
    asked = {"scope_kind": "session", "key_prefix": "mine."} | wrong
    assert await host.refusal("state.list", asked) == "TypeError"


@pytest.mark.parametrize(
    "wrong", [{"key": "other"}, {"scope_kind": "profile"}, {"scope_kind": "shared"}]
)
@pytest.mark.parametrize("name", VERBS)
async def test_what_no_binding_covers_is_denied(name: str, wrong: dict[str, Any]) -> None:
    """T2."""
    host = await asking()
    asked = MINE | VERBS[name] | wrong
    settled = await host.ask(name, asked)
    assert settled.refusal
    said = f'"script" declares no {asked["scope_kind"]} state that covers "{asked["key"]}"'
    assert settled.refusal.detail.message == said


async def test_a_write_is_made_once_and_says_the_same_again() -> None:
    host = await asking()
    put = MINE | {"value": {"n": 1}}
    first = await host.value("state.put", **put)
    assert first["ok"]
    added = await host.value("state.append", **(MINE | {"key": "mine.list", "item": 1}))
    host.begin()
    assert await host.value("state.put", **put) == first
    again = await host.value("state.append", **(MINE | {"key": "mine.list", "item": 1}))
    assert again == added
    assert again["entry"]["value"] == [1]


async def test_a_read_sees_in_a_later_entry_what_it_saw() -> None:
    host = await asking()
    assert await host.value("state.get", **MINE) is None
    await host.value("state.put", **MINE, value=1)
    listed = {"scope_kind": "session", "key_prefix": "mine.", "limit": 10}
    before = await host.value("state.list", **listed)
    await host.value("state.delete", **MINE)
    host.begin()
    assert await host.value("state.get", **MINE) is None
    assert await host.value("state.list", **listed) == before
    assert [each["key"] for each in before["entries"]] == ["mine.a"]


async def test_a_wrong_kind_of_value_is_a_mistake_that_is_recorded() -> None:
    host = await asking()
    await host.value("state.put", **MINE, value=1)
    for _ in range(2):
        assert await host.refusal("state.append", MINE | {"item": 1}) == "TypeError"
        assert await host.refusal("state.patch", MINE | {"patch": {}}) == "TypeError"
        host.begin()
        await host.value("state.put", **MINE, value=1)


async def test_a_secret_does_not_go_into_the_state() -> None:
    """V6: "`state.*` refuse a value that contains a given-out secret"."""
    host = await asking()
    await host.value("vault.get", scope="profile", key="token")
    wrong = {"value": ["s3cr3t-value"], "item": "s3cr3t-value", "patch": {"a": "s3cr3t-value"}}
    for name in ("state.put", "state.append", "state.patch"):
        settled = await host.ask(name, MINE | wrong)
        assert settled.refusal
        assert settled.refusal.detail.message == "secrets belong in the vault"


@pytest.mark.parametrize("name", ["state.put", "state.append", "state.patch"])
async def test_no_key_holds_a_secret(name: str) -> None:
    host = await asking()
    await host.value("vault.get", scope="profile", key="token")
    settled = await host.ask(name, MINE | VERBS[name] | {"key": "mine.s3cr3t-value"})
    assert settled.refusal
    said = "a key may not hold a secret: secrets belong in the vault"
    assert (settled.refusal.detail.code, settled.refusal.detail.message) == ("STATE_DENIED", said)
