"""`penstock keys`."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock import NewSchedule


def test_a_key_is_shown_once_and_listed_without_itself(
    run: Callable[..., tuple[int, str, str]], run_json: Callable[..., Any]
) -> None:
    code, key, err = run("keys", "create", "ann", "--permission", "read", "--days", "2")
    assert code == 0
    assert key.startswith("pk_")
    assert err.startswith("Store it now: it is not shown again.")
    (listed,) = run_json("keys", "list")["keys"]
    assert (listed["name"], listed["permissions"]) == ("ann", ["read"])
    assert listed["expires_at"] > listed["created_at"]
    assert key.strip() not in run("keys", "list")[1]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("create", ""), 1, "/name: must not be blank"),
        (("create", "ann", "--days", "36501"), 2, "Invalid value for '--days'"),
        (("create", "a\udcff"), 2, "Error: an argument must be UTF-8 text, found 'a\\udcff'"),
        (("revoke", "a\udcff"), 2, "Error: an argument must be UTF-8 text, found 'a\\udcff'"),
    ],
)
def test_an_unknown_key_is_reported(
    run: Callable[..., tuple[int, str, str]], arguments: tuple[str, ...], code: int, message: str
) -> None:
    ended, _, err = run("keys", *arguments)
    assert ended == code
    assert message in err


def test_a_revoked_key_stays_in_the_list(
    run: Callable[..., tuple[int, str, str]], run_json: Callable[..., Any]
) -> None:
    assert run_json("keys", "create", "ann")["key"].startswith("pk_")
    assert run("keys", "revoke", "ann") == (0, "ann is revoked\n", "")
    assert run_json("keys", "list")["keys"][0]["revoked_at"]


def test_a_revoked_key_pauses_the_schedules_that_it_made(
    project: Path, run: Callable[..., tuple[int, str, str]]
) -> None:
    async def schedule() -> None:
        async with penstock.open(project, resume=False) as runtime:
            parts = runtime.parts.storage.database_parts
            assert parts is not None
            profile = await parts.keys.profile(await parts.keys.create("ann"))
            new = NewSchedule(name="News", cron="@daily", input={"content": "Hi"})
            await runtime.schedules.create(new, profile)

    asyncio.run(schedule())
    code, out, err = run("keys", "revoke", "ann")
    assert (code, out) == (0, "ann is revoked\n")
    assert err == "1 schedule of it paused; penstock schedules list shows them\n"
    assert "paused" in run("schedules", "list")[1]


def test_a_taken_name_is_refused_and_a_missing_one_is_suggested(
    run: Callable[..., tuple[int, str, str]],
) -> None:
    run("keys", "create", "ann")
    assert run("keys", "create", "ann")[0] == 1
    code, _, err = run("keys", "revoke", "an")
    assert (code, err) == (1, "Error: there is no key 'an'. Did you mean 'ann'?\n")


def test_a_catalog_limits_the_permissions_of_keys(
    project: Path, run: Callable[..., tuple[int, str, str]], run_json: Callable[..., Any]
) -> None:
    run("keys", "create", "old", "--permission", "fly")
    groups = "[{group_id: g, name: G, permissions: [{permission_id: mail.send, name: Send}]}]"
    (project / "a.permissions.yaml").write_text(f"groups: {groups}\n")
    code, _, err = run("keys", "create", "ann", "--permission", "mail.sent")
    assert code == 1
    assert "'mail.sent' is not in a.permissions.yaml. Did you mean 'mail.send'?" in err
    assert run_json("keys", "list")["keys"][0]["stale"] == ["fly"]
    assert "fly (stale)" in run("keys", "list")[1]
