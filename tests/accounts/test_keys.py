"""API keys and browser sign-ins: shown once, stored as hashes."""

import pytest
from sqlalchemy import select

from penstock.accounts.keys import Keys, SignIns
from penstock.core.clock import Moment
from penstock.core.errors import InvalidRequest, NameTaken, NotFound, Unauthenticated
from penstock.core.ids import ProfileId
from penstock.store.database import Database
from penstock.store.tables import keys as table
from penstock.store.tables import sign_ins as rows
from penstock.testing.clock import FakeClock


async def test_a_key_has_43_random_characters(keys: Keys) -> None:
    key = await keys.create("ann")
    assert key.startswith("pk_")
    assert len(key) == 46
    assert key != await keys.create("bob")


async def test_only_the_hash_of_a_key_is_stored(keys: Keys, database: Database) -> None:
    key = await keys.create("ann")
    row = await database.read(lambda each: each.execute(select(table)).one())
    assert key not in str(row)
    assert len(row.sha256) == 64


async def test_a_key_identifies_a_profile_with_its_permissions(keys: Keys) -> None:
    profile = await keys.profile(await keys.create("ann"))
    assert profile.profile_id == "ann"
    assert profile.permissions == {"read", "chat", "approve"}
    assert not profile.holds("manage")
    key = await keys.create("ci", profile_id=ProfileId("team"), permissions=["read", "read"])
    assert (await keys.profile(key)).profile_id == "team"
    assert (await keys.list())[1].permissions == ("read",)


@pytest.mark.parametrize("name", ["", " \t"])
async def test_a_key_has_a_name(keys: Keys, name: str) -> None:
    """The profile defaults to the name."""
    with pytest.raises(InvalidRequest, match="/name: must not be blank"):
        await keys.create(name)


async def test_a_second_key_of_one_name_is_refused(keys: Keys) -> None:
    await keys.create("ann")
    with pytest.raises(NameTaken, match="there is a key 'ann' already"):
        await keys.create("ann")


@pytest.mark.parametrize("key", ["", "pk_", "pk_" + "A" * 43, "\ud800"])
async def test_an_unknown_key_is_unauthenticated(keys: Keys, key: str) -> None:
    await keys.create("ann")
    with pytest.raises(Unauthenticated):
        await keys.profile(key)


async def test_an_expired_key_is_unauthenticated(keys: Keys, clock: FakeClock) -> None:
    key = await keys.create("ann", expires_at=Moment(clock.now() + 1000))
    await keys.profile(key)
    clock.advance(1)
    with pytest.raises(Unauthenticated):
        await keys.profile(key)


async def test_a_revoked_key_is_unauthenticated_at_once(keys: Keys, clock: FakeClock) -> None:
    key = await keys.create("ann")
    await keys.revoke("ann")
    first = (await keys.list())[0].revoked_at
    with pytest.raises(Unauthenticated):
        await keys.profile(key)
    clock.advance(1)
    await keys.revoke("ann")
    assert (await keys.list())[0].revoked_at == first


async def test_revoking_an_unknown_key_names_the_nearest(keys: Keys) -> None:
    await keys.create("laptop")
    with pytest.raises(NotFound, match=r"there is no key 'labtop'\. Did you mean 'laptop'\?"):
        await keys.revoke("labtop")


async def test_the_last_use_is_recorded_at_most_once_a_minute(keys: Keys, clock: FakeClock) -> None:
    key = await keys.create("ann")
    await keys.profile(key)
    first = (await keys.list())[0].last_used_at
    assert first == clock.now()
    clock.advance(30)
    await keys.profile(key)
    assert (await keys.list())[0].last_used_at == first
    clock.advance(30)
    await keys.profile(key)
    assert (await keys.list())[0].last_used_at == clock.now()


async def test_a_revoked_key_still_makes_requests_need_a_key(keys: Keys) -> None:
    assert not await keys.exist()
    await keys.create("ann")
    await keys.revoke("ann")
    assert await keys.exist()


HOUR = 3600


@pytest.fixture
def sign_ins(database: Database, keys: Keys, clock: FakeClock) -> SignIns:
    """The sign-ins of an installation, none so far."""
    return SignIns(database, keys, clock)


async def test_a_cookie_is_random_and_stored_as_a_hash(
    database: Database, keys: Keys, sign_ins: SignIns
) -> None:
    """Spec: "a random token that stands for the key (hash stored; dies with the key)"."""
    key = await keys.create("ann")
    token = await sign_ins.begin(key)
    signed_in = await sign_ins.find(token)
    kept = str(await database.read(lambda each: each.execute(select(rows)).all()))
    assert signed_in.profile.profile_id == ProfileId("ann")
    assert (len(token), token in kept, key in kept) == (43, False, False)
    await keys.revoke("ann")
    with pytest.raises(Unauthenticated):
        await sign_ins.find(token)


async def test_a_cookie_lasts_twelve_hours_and_is_renewed_after_six(
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


async def test_a_token_is_worthless_after_signing_out(keys: Keys, sign_ins: SignIns) -> None:
    token = await sign_ins.begin(await keys.create("ann"))
    await sign_ins.end(token)
    await sign_ins.end(token)
    with pytest.raises(Unauthenticated):
        await sign_ins.find(token)


@pytest.mark.parametrize("key", ["", "pk_x", "é\ud800"])
async def test_an_unknown_key_cannot_sign_in(sign_ins: SignIns, key: str) -> None:
    with pytest.raises(Unauthenticated):
        await sign_ins.begin(key)
    with pytest.raises(Unauthenticated):
        await sign_ins.find(key)


async def test_expired_rows_are_deleted(
    database: Database, keys: Keys, sign_ins: SignIns, clock: FakeClock
) -> None:
    key = await keys.create("ann")
    await sign_ins.begin(key)
    clock.advance(12 * HOUR)
    await sign_ins.begin(key)
    kept = await database.read(lambda each: each.execute(select(rows)).all())
    assert len(kept) == 1
