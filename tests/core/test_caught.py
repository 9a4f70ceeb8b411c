"""What code of others raises is kept, unless it is meant to end more than that."""

import asyncio

import pytest

from penstock.core.caught import CaughtError


def test_what_was_raised_is_kept_in_one_line() -> None:
    with CaughtError() as fault:
        raise ValueError("no")
    assert str(fault) == "ValueError: no"


def test_nothing_is_nothing() -> None:
    with CaughtError() as fault:
        pass
    assert (fault.error, str(fault)) == (None, "")


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, asyncio.CancelledError])
def test_what_ends_a_task_or_the_process_goes_on(error: type[BaseException]) -> None:
    with pytest.raises(error), CaughtError():
        raise error
