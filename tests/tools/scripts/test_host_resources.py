"""Secrets, durable values and files, as the manifest of a script declares them."""

from typing import Any

import pytest

from penstock.core.events.events import SecretGiven
from penstock.core.limits import Limits
from penstock.core.scopes import Scope, ScopeKind, parse_path
from penstock.testing.invocation import open_workbench
from penstock.tools.scripts.bindings import Bindings
from tests.kit.hosts import Asking, asking
from tests.kit.tools import Act

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
async def test_a_malformed_state_request_is_refused(name: str, wrong: dict[str, Any]) -> None:
    host = await asking()
    assert await host.refusal(name, MINE | VERBS[name] | wrong) == "TypeError"


@pytest.mark.parametrize(("name", "wrong"), BAD_WRITES)
async def test_a_malformed_state_write_is_refused(name: str, wrong: dict[str, Any]) -> None:
    host = await asking()
    assert await host.refusal(name, MINE | VERBS[name] | wrong) == "TypeError"


@pytest.mark.parametrize("name", ["state.put", "state.patch", "state.append"])
async def test_a_state_write_without_a_value_is_refused(name: str) -> None:
    host = await asking()
    assert await host.refusal(name, MINE) == "TypeError"


@pytest.mark.parametrize("wrong", BAD_LISTS)
async def test_a_malformed_state_list_is_refused(wrong: dict[str, Any]) -> None:
    host = await asking()
    asked = {"scope_kind": "session", "key_prefix": "mine."} | wrong
    assert await host.refusal("state.list", asked) == "TypeError"


@pytest.mark.parametrize(
    "wrong", [{"key": "other"}, {"scope_kind": "profile"}, {"scope_kind": "shared"}]
)
@pytest.mark.parametrize("name", VERBS)
async def test_a_key_that_no_binding_covers_is_denied(name: str, wrong: dict[str, Any]) -> None:
    """T2."""
    host = await asking()
    asked = MINE | VERBS[name] | wrong
    settled = await host.ask(name, asked)
    assert settled.refusal
    message = f'"script" declares no {asked["scope_kind"]} state that covers "{asked["key"]}"'
    assert settled.refusal.detail.message == message


async def test_a_state_write_happens_once_and_repeats_its_result() -> None:
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


async def test_a_state_read_repeats_its_result_in_a_later_entry() -> None:
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


async def test_a_wrong_kind_of_value_is_a_recorded_refusal() -> None:
    host = await asking()
    await host.value("state.put", **MINE, value=1)
    for _ in range(2):
        assert await host.refusal("state.append", MINE | {"item": 1}) == "TypeError"
        assert await host.refusal("state.patch", MINE | {"patch": {}}) == "TypeError"
        host.begin()
        await host.value("state.put", **MINE, value=1)


async def test_a_secret_is_refused_as_a_state_value() -> None:
    """V6: "`state.*` refuse a value that contains a given-out secret"."""
    host = await asking()
    await host.value("vault.get", scope="profile", key="token")
    wrong = {"value": ["s3cr3t-value"], "item": "s3cr3t-value", "patch": {"a": "s3cr3t-value"}}
    for name in ("state.put", "state.append", "state.patch"):
        settled = await host.ask(name, MINE | wrong)
        assert settled.refusal
        assert settled.refusal.detail.message == "secrets belong in the vault"


@pytest.mark.parametrize("name", ["state.put", "state.append", "state.patch"])
async def test_a_state_key_with_a_secret_is_refused(name: str) -> None:
    host = await asking()
    await host.value("vault.get", scope="profile", key="token")
    settled = await host.ask(name, MINE | VERBS[name] | {"key": "mine.s3cr3t-value"})
    assert settled.refusal
    message = "a key may not hold a secret: secrets belong in the vault"
    assert (settled.refusal.detail.code, settled.refusal.detail.message) == (
        "STATE_DENIED",
        message,
    )


OWN = {"scope": "profile", "key": "token"}
TEAM = {"scope": "shared", "scope_id": "team", "key": "token"}
BAD_SECRETS: list[dict[str, Any]] = [
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
@pytest.mark.parametrize("wrong", BAD_SECRETS)
async def test_a_malformed_vault_request_is_refused_as_a_type_error(
    name: str, wrong: dict[str, Any]
) -> None:
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
async def test_an_undeclared_or_missing_secret_is_refused(name: str, asked: Any, code: str) -> None:
    host = await asking()
    assert await host.refusal(name, asked) == code


async def test_the_refusal_names_the_missing_vault_key() -> None:
    """V1."""
    host = await asking()
    settled = await host.ask("vault.get", {"scope": "profile", "key": "other"})
    assert settled.refusal
    message = '"script" does not declare the vault key "other" for scope profile'
    assert settled.refusal.detail.message == message


async def test_a_secret_is_returned_and_not_recorded() -> None:
    host = await asking()
    assert await host.value("vault.get", **OWN) == "s3cr3t-value"
    assert "s3cr3t" not in repr(await host.bench.events())
    vault = host.bench.resources.vault
    assert vault
    mine = Scope(ScopeKind.PROFILE, host.bench.model.profile.profile_id)
    await vault.set(mine, "token", "another-value")
    host.begin()
    assert await host.value("vault.get", **OWN) == "another-value"


async def test_a_handle_hides_the_secret_and_is_the_same_in_each_entry() -> None:
    host = await asking()
    handle = await host.value("vault.handle", **OWN)
    assert "s3cr3t" not in handle["placeholder"]
    host.begin()
    assert await host.value("vault.handle", **OWN) == handle


async def test_a_shared_secret_is_found_by_its_scope() -> None:
    host = await asking()
    vault = host.bench.resources.vault
    assert vault
    await vault.set(Scope(ScopeKind.SHARED, "team"), "token", "ours-and-yours")
    assert await host.value("vault.get", **TEAM) == "ours-and-yours"


@pytest.mark.parametrize("name", NAMES)
async def test_the_log_records_which_secret_a_script_received(name: str) -> None:
    host = await asking()
    assert await host.refusal(name, {"scope": "profile", "key": "other"}) == "VAULT_DENIED"
    await host.value(name, **OWN)
    (passed,) = [each for each in await host.bench.events() if isinstance(each, SecretGiven)]
    assert passed.key == "token"


BAD_PATHS: list[Any] = [
    None,
    "",
    1,
    "a.txt",
    "file:///etc/passwd",
    "task:///a",
    "task://a/../b",
    "task://./a",
    "task://a//b",
    "task://a\\b",
    "task://a\0",
    "task://" + "x" * 600,
    "task://" + "a/" * 40 + "b",
]


@pytest.mark.parametrize("path", BAD_PATHS)
async def test_a_malformed_path_is_refused(path: Any) -> None:
    host = await asking()
    assert await host.refusal("fs.readBytes", {"path": path}) == "TypeError"


async def written(host: Asking, uri: str, content: bytes) -> None:
    workspace = host.invocation.workspace
    await workspace.make(await workspace.write(parse_path(uri), content))


async def test_a_file_read_repeats_its_content_in_a_later_entry() -> None:
    host = await asking()
    await written(host, "task://a.bin", b"\x00\xff")
    assert await host.value("fs.readBytes", path="task://a.bin") == b"\x00\xff"
    await written(host, "task://a.bin", b"other")
    host.begin()
    assert await host.value("fs.readBytes", path="task://a.bin") == b"\x00\xff"


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("task://none", "not_found"),
        ("task://d", "is_directory"),
        ("task://", "is_directory"),
        ("session://", "is_directory"),
        ("task://d/big", "too_large"),
    ],
)
async def test_a_refused_read_repeats_its_reason(path: str, reason: str) -> None:
    bench = await open_workbench(tool := Act("script"), limits=Limits(read_bytes=3))
    host = Asking(bench, tool, Bindings())
    await written(host, "task://d/big", b"1234")
    for _ in range(2):
        settled = await host.ask("fs.readBytes", {"path": path})
        assert settled.refusal
        assert (settled.refusal.detail.details or {})["reason"] == reason
        host.begin()
