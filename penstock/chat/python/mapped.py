"""Many inputs at once, for `Runtime.map`: checked first, and yielded in their order."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable
from typing import Any

from penstock.agents.attachments.content import Content
from penstock.core.errors import ConfigError
from penstock.core.reply import Reply

_AHEAD = 4
"""A slow input lets at most so many times `concurrency` others be started after it."""


def checked_inputs(inputs: Iterable[Content], concurrency: int) -> list[Content]:
    """Return the inputs of a map. Raises ConfigError for arguments that make no sense."""
    if concurrency < 1:
        raise ConfigError(f"concurrency must be at least 1, found {concurrency}")
    if isinstance(inputs, str):
        raise ConfigError(f"inputs takes a list of messages, such as [{inputs[:80]!r}]")
    if not isinstance(inputs, Iterable):
        raise ConfigError(f"inputs takes a list of messages, found {inputs!r}")
    return list(inputs)


async def in_order(
    start: Callable[[int], Coroutine[Any, Any, Reply[Any]]], count: int, *, concurrency: int
) -> AsyncGenerator[Reply[Any], None]:
    """Yield results in the order of their numbers; a few wait for earlier ones."""
    ahead = _AHEAD * concurrency
    waiting = deque[asyncio.Task[Reply[Any]]]()
    try:
        for number in range(count):
            if len(waiting) >= ahead:
                yield await waiting.popleft()
            waiting.append(asyncio.create_task(start(number)))
        while waiting:
            yield await waiting.popleft()
    finally:
        for work in waiting:
            work.cancel()
