"""A future that one coroutine waits for can be awaited by others."""

import asyncio

import pytest

from penstock.core.awaited import taken


async def test_what_was_taken_can_be_awaited_again() -> None:
    future = asyncio.get_running_loop().create_future()
    assert taken(next(future.__await__())) is future
    assert next(future.__await__()) is future


async def test_what_was_not_taken_refuses_the_next() -> None:
    future = asyncio.get_running_loop().create_future()
    next(future.__await__())
    with pytest.raises(RuntimeError):
        next(future.__await__())


def test_a_mere_turn_of_the_loop_is_left_as_it_is() -> None:
    assert taken(None) is None
