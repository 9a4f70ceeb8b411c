"""Links that open one conversation."""

from collections.abc import AsyncIterator
from hashlib import sha256
from typing import Any

import pytest
from sqlalchemy import insert, select

from penstock.accounts.keys import Keys
from penstock.accounts.web_links import WebLinks
from penstock.core.errors import LinkExpired, Unauthenticated
from penstock.core.ids import ProfileId, SessionId
from penstock.core.profile import CHAT, LOCAL_PROFILE, Profile
from penstock.store.database import Database, open_database
from penstock.store.tables import sessions, web_links
from penstock.testing.clock import FakeClock

ANN = Profile(profile_id=ProfileId("ann"), permissions=frozenset({CHAT, "p.send"}))
SESSION = SessionId("conv_1")
ROW = {"profile_id": "ann", "agent": "assistant", "title": "", "message_count": 0}


@pytest.fixture
async def database() -> AsyncIterator[Database]:
    """A database with one conversation."""
    database = await open_database("sqlite://")
    row = ROW | {"session_id": SESSION, "created_at": 0, "updated_at": 0}
    await database.write(lambda each: each.execute(insert(sessions).values(row)))
    yield database
    await database.close()


async def rows(database: Database) -> list[Any]:
    """Return the stored links."""
    return list(await database.read(lambda each: each.execute(select(web_links)).all()))


async def test_a_link_has_32_random_bytes_and_is_stored_as_a_hash(database: Database) -> None:
    """Spec: "32 random bytes; stored as SHA-256"."""
    token = await WebLinks(database, FakeClock(), lambda: b"\xff" * 32).make(SESSION, ANN)
    (row,) = await rows(database)
    assert token == "_" * 42 + "8"
    assert (row.sha256, row.permissions) == (sha256(token.encode()).hexdigest(), [CHAT])


@pytest.mark.parametrize("profile", [ANN, LOCAL_PROFILE])
async def test_a_link_creates_a_key_if_the_server_needs_keys(
    database: Database, profile: Profile
) -> None:
    clock = FakeClock()
    keys, links = Keys(database, clock), WebLinks(database, clock)
    bare = await links.open(await links.make(SESSION, profile))
    assert (bare.session_id, bare.agent, bare.key) == (SESSION, "assistant", None)
    await keys.create("ann")
    opened = await links.open(await links.make(SESSION, profile))
    key_profile = await keys.profile(opened.key or "")
    assert (key_profile.profile_id, key_profile.session_id) == (profile.profile_id, SESSION)
    clock.advance(12 * 3600)
    with pytest.raises(Unauthenticated):
        await keys.profile(opened.key or "")


async def test_a_link_works_once_within_ten_minutes(database: Database) -> None:
    clock = FakeClock()
    links = WebLinks(database, clock)
    used, late = [await links.make(SESSION, ANN) for _ in range(2)]
    await links.open(used)
    clock.advance(600)
    for token in (used, late, "", "é.\ud800"):
        with pytest.raises(LinkExpired, match="cannot be used"):
            await links.open(token)
    await links.make(SESSION, ANN)
    assert len(await rows(database)) == 1


async def test_a_link_to_an_unknown_conversation_is_refused(database: Database) -> None:
    links = WebLinks(database, FakeClock())
    token = await links.make(SessionId("conv_2"), ANN)
    with pytest.raises(LinkExpired):
        await links.open(token)
