"""A future that one coroutine waits for can be awaited by others."""

import asyncio
import gc
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from penstock.core.foreign_code import (
    CaughtError,
    consume_outcome,
    fits,
    returned_type,
    takes,
    unmarked,
)


async def test_a_taken_future_can_be_awaited_again() -> None:
    future = asyncio.get_running_loop().create_future()
    assert unmarked(next(future.__await__())) is future
    assert next(future.__await__()) is future


async def test_a_future_that_was_not_taken_refuses_the_next_await() -> None:
    future = asyncio.get_running_loop().create_future()
    next(future.__await__())
    with pytest.raises(RuntimeError):
        next(future.__await__())


def test_unmarked_passes_none_through() -> None:
    assert unmarked(None) is None


@pytest.mark.usefixtures("new_garbage")
@pytest.mark.parametrize("is_passed_over", [False, True])
async def test_an_unretrieved_failure_is_reported_unless_it_is_consumed(
    *, is_passed_over: bool
) -> None:
    reported: list[Any] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: reported.append(context["message"]))
    future = loop.create_future()
    future.set_exception(ValueError("wrong"))
    if is_passed_over:
        consume_outcome(future)
    del future
    gc.collect()
    assert len(reported) == (not is_passed_over)


async def test_a_pending_or_cancelled_future_is_left_unchanged() -> None:
    going, over = (asyncio.get_running_loop().create_future() for _ in range(2))
    over.cancel()
    for each in (going, over, None):
        consume_outcome(each)
    assert not going.done()


def test_a_caught_error_is_kept_in_one_line() -> None:
    with CaughtError() as fault:
        raise ValueError("no")
    assert str(fault) == "ValueError: no"


def test_a_block_without_an_error_catches_none() -> None:
    with CaughtError() as fault:
        pass
    assert (fault.error, str(fault)) == (None, "")


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, asyncio.CancelledError])
def test_an_error_that_ends_the_task_or_the_process_propagates(error: type[BaseException]) -> None:
    with pytest.raises(error), CaughtError():
        raise error


@pytest.mark.parametrize(
    ("function", "counts"),
    [
        (lambda: 0, [0]),
        (lambda a, b: 0, [2]),
        (lambda a, b=1, *c: 0, [1, 2, 3]),
        (lambda *, a: 0, []),
        (5, []),
        (max, [0, 1, 2, 3]),  # has no signature, so it is not known
    ],
)
def test_how_many_arguments_a_function_takes_is_read_from_its_signature(
    function: Any, counts: list[int]
) -> None:
    assert [count for count in range(4) if takes(function, count)] == counts


class Pool:
    """Something that lives in a program."""


class BigPool(Pool):
    """A larger pool."""


class Mailer:
    """Something else."""


@asynccontextmanager
async def managed() -> AsyncGenerator[Pool]:
    yield Pool()


async def coroutine() -> Pool:
    return Pool()


def plain() -> Pool:
    return Pool()


@pytest.mark.parametrize(
    ("function", "found"),
    [(managed, Pool), (coroutine, Pool), (plain, Pool), (Mailer, Mailer), (lambda: 1, None)],
)
def test_the_type_that_a_function_provides_is_read_from_its_hints(
    function: Callable[..., Any], found: Any
) -> None:
    assert returned_type(function) is found


@pytest.mark.parametrize(
    ("found", "wanted", "is_fit"),
    [
        (BigPool, Pool, True),
        (Pool, BigPool, False),
        (Mailer, Pool, False),
        (dict, dict[str, int], True),
        (Pool, Any, True),
        (Pool, Pool | Mailer, True),
        (Pool, Mailer | int, False),
    ],
)
def test_types_are_compared_as_far_as_they_are_known(found: Any, wanted: Any, is_fit: bool) -> None:
    assert fits(found, wanted) is is_fit
