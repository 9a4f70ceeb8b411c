"""Browsers that are signed in."""

import pytest
from sqlalchemy import select

from penstock.chat.access.keys import Keys
from penstock.chat.access.sign_ins import SignIns
from penstock.core.clock import Moment
from penstock.core.errors import Unauthenticated
from penstock.core.ids import ProfileId
from penstock.store.database import Database
from penstock.store.tables import sign_ins as table
from penstock.testing.clock import FakeClock

HOUR = 3600


@pytest.fixture
def sign_ins(database: Database, keys: Keys, clock: FakeClock) -> SignIns:
    """Nobody is signed in."""
    return SignIns(database, keys, clock)


async def test_a_cookie_is_chance_that_stands_for_a_key(
    database: Database, keys: Keys, sign_ins: SignIns
) -> None:
    """Spec: "a random token that stands for the key (hash stored; dies with the key)"."""
    key = await keys.create("ann")
    token = await sign_ins.begin(key)
    found = await sign_ins.find(token)
    kept = str(await database.read(lambda each: each.execute(select(table)).all()))
    assert found.profile.profile_id == ProfileId("ann")
    assert (len(token), token in kept, key in kept) == (43, False, False)
    await keys.revoke("ann")
    with pytest.raises(Unauthenticated):
        await sign_ins.find(token)


async def test_a_cookie_works_for_twelve_hours_and_begins_anew_after_six(
    keys: Keys, sign_ins: SignIns, clock: FakeClock
) -> None:
    """Spec: "12 h, renewed when half is over"."""
    token = await sign_ins.begin(await keys.create("ann"))
    assert not (await sign_ins.find(token)).is_renewed
    clock.advance(6 * HOUR + 1)
    assert (await sign_ins.find(token)).is_renewed
    clock.advance(11 * HOUR)
    assert (await sign_ins.find(token)).is_renewed
    clock.advance(12 * HOUR)
    with pytest.raises(Unauthenticated):
        await sign_ins.find(token)


async def test_a_cookie_never_outlives_its_key(
    keys: Keys, sign_ins: SignIns, clock: FakeClock
) -> None:
    key = await keys.create("ann", expires_at=Moment(clock.now() + 1000))
    token = await sign_ins.begin(key)
    clock.advance(1)
    with pytest.raises(Unauthenticated):
        await sign_ins.find(token)


async def test_who_signs_out_is_out(keys: Keys, sign_ins: SignIns) -> None:
    token = await sign_ins.begin(await keys.create("ann"))
    await sign_ins.end(token)
    await sign_ins.end(token)
    with pytest.raises(Unauthenticated):
        await sign_ins.find(token)


@pytest.mark.parametrize("key", ["", "pk_x", "é\ud800"])
async def test_what_is_no_key_signs_nobody_in(sign_ins: SignIns, key: str) -> None:
    with pytest.raises(Unauthenticated):
        await sign_ins.begin(key)
    with pytest.raises(Unauthenticated):
        await sign_ins.find(key)


async def test_what_is_over_is_forgotten(
    database: Database, keys: Keys, sign_ins: SignIns, clock: FakeClock
) -> None:
    key = await keys.create("ann")
    await sign_ins.begin(key)
    clock.advance(12 * HOUR)
    await sign_ins.begin(key)
    kept = await database.read(lambda each: each.execute(select(table)).all())
    assert len(kept) == 1
