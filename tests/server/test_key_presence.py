"""Whether a key exists: closed until a query succeeds; one query for all; at most a second old."""

import asyncio

import pytest

from penstock.core.errors import NotReady, StoreError
from penstock.server.key_presence import KeyPresence
from penstock.testing.clock import FakeClock, settle


class KeyStore:
    """A key store whose answers the test controls, one query at a time."""

    def __init__(self) -> None:
        self.looks: list[asyncio.Future[bool]] = []

    async def exist(self) -> bool:
        look: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self.looks.append(look)
        return await look

    def answer(self, has_key: bool | BaseException) -> None:
        look = self.looks[-1]
        if isinstance(has_key, bool):
            look.set_result(has_key)
        else:
            look.set_exception(has_key)


class Fixture:
    """A presence over such a store."""

    def __init__(self, *, wait_seconds: float = 60) -> None:
        self.store, self.clock = KeyStore(), FakeClock()
        self.presence = KeyPresence(self.store.exist, self.clock, wait_seconds=wait_seconds)

    async def ask(self, requests: int = 1) -> list[asyncio.Task[bool]]:
        """Let this many requests arrive now."""
        asked = [asyncio.create_task(self.presence.query()) for _ in range(requests)]
        await settle(rounds=5)
        return asked

    async def told(self, has_key: bool | BaseException) -> None:
        """Let the running query end."""
        self.store.answer(has_key)
        await settle(rounds=5)

    async def none_found(self) -> None:
        """Make a first look, which finds no key."""
        (first,) = await self.ask()
        await self.told(has_key=False)
        assert await first is False


@pytest.mark.parametrize("expected", [True, False])
async def test_concurrent_requests_share_one_query(expected: bool) -> None:
    on = Fixture()
    asked = await on.ask(10)
    assert not any(each.done() for each in asked)
    assert on.presence.known is None
    await on.told(expected)
    assert [await each for each in asked] == [expected] * 10
    assert len(on.store.looks) == 1
    assert on.presence.known is expected


async def test_a_failing_query_fails_every_request_and_the_next_one_queries_again() -> None:
    on = Fixture()
    asked = await on.ask(3)
    await on.told(StoreError("down"))
    outcomes = await asyncio.gather(*asked, return_exceptions=True)
    assert [type(each) for each in outcomes] == [StoreError] * 3
    (again,) = await on.ask()
    await on.told(has_key=False)
    assert await again is False


async def test_a_cancelled_first_request_does_not_cancel_the_query_of_the_others() -> None:
    on = Fixture()
    first, second = await on.ask(2)
    first.cancel()
    await on.told(has_key=True)
    assert first.cancelled()
    assert await second is True
    assert len(on.store.looks) == 1


async def test_a_query_that_fails_after_every_request_has_left_logs_no_error() -> None:
    on = Fixture()
    (only,) = await on.ask()
    only.cancel()
    await on.told(StoreError("down"))
    (again,) = await on.ask()
    await on.told(has_key=True)
    assert await again is True


async def test_an_answer_is_valid_for_one_second_after_its_query_started() -> None:
    on = Fixture()
    await on.none_found()
    on.clock.advance(0.9)
    assert await on.presence.query() is False
    assert len(on.store.looks) == 1
    on.clock.advance(0.1)
    (later,) = await on.ask()
    assert not later.done()
    await on.told(has_key=True)
    assert await later is True


async def test_a_slow_query_proves_nothing_for_later_requests() -> None:
    """A key that is created during a query takes effect within a second."""
    on = Fixture()
    (early,) = await on.ask()
    on.clock.advance(5)
    (late,) = await on.ask()
    await on.told(has_key=False)
    assert await early is False
    assert not late.done()
    await on.told(has_key=True)
    assert await late is True


async def test_a_failing_query_does_not_fall_back_to_an_earlier_answer() -> None:
    on = Fixture()
    await on.none_found()
    on.clock.advance(1)
    (later,) = await on.ask()
    await on.told(StoreError("down"))
    with pytest.raises(StoreError):
        await later


async def test_after_a_key_was_seen_no_query_is_made() -> None:
    on = Fixture()
    (first,) = await on.ask()
    await on.told(has_key=True)
    assert await first is True
    on.clock.advance(1000)
    assert await on.presence.query() is True
    assert len(on.store.looks) == 1


async def test_a_hanging_query_is_refused_and_not_started_twice() -> None:
    on = Fixture(wait_seconds=0.01)
    for _ in range(2):
        with pytest.raises(NotReady, match=r"did not return the API keys within 0\.01 s"):
            await on.presence.query()
    assert len(on.store.looks) == 1
    await on.told(has_key=True)
    assert await on.presence.query() is True


async def test_without_a_key_store_no_key_exists() -> None:
    presence = KeyPresence(None, FakeClock(), wait_seconds=1)
    assert (await presence.query(), presence.known) == (False, False)
