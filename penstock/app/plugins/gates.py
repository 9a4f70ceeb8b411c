"""Gates of plugins: checks that can prevent runs of some flows from starting."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from inspect import iscoroutinefunction

from msgspec import Struct

from penstock.core.foreign_code import CaughtError
from penstock.tools.threads import Threads

log = logging.getLogger(__name__)

CHECK_SECONDS = 2.0
"""A check that takes longer counts as false."""
_MOST_THREADS = 4
Check = Callable[[], bool | Awaitable[bool]]


class PluginGate(Struct, frozen=True, kw_only=True):
    """A check that runs of some flows must pass."""

    name: str
    check: Check
    flows: tuple[str, ...]
    """Commands, or prefixes of commands followed by `*`."""
    message: str
    """The reason for rejected runs."""

    def stands_before(self, command: str) -> bool:
        """Whether the gate applies to a flow."""
        return any(
            command.startswith(each[:-1]) if each.endswith("*") else command == each
            for each in self.flows
        )


class GateList:
    """The gates of a project, in the order in which they were registered."""

    def __init__(self, seconds: float = CHECK_SECONDS) -> None:
        self._gates: list[PluginGate] = []
        self._seconds = seconds
        self._threads = Threads(_MOST_THREADS)

    def add(self, gate: PluginGate) -> None:
        """Add a gate."""
        self._gates.append(gate)

    async def refusal(self, command: str) -> str | None:
        """Return the message of the first closed gate; None if the run can start."""
        for gate in self._standing_before(command):
            if not await self._is_open(gate):
                return gate.message
        return None

    def close(self) -> None:
        """Let idle threads end."""
        self._threads.close()

    def _standing_before(self, command: str) -> Iterable[PluginGate]:
        return [each for each in self._gates if each.stands_before(command)]

    async def _is_open(self, gate: PluginGate) -> bool:
        """Return the result of a check; one that raises or exceeds its time is false."""
        answer = False
        with CaughtError() as fault:
            async with asyncio.timeout(self._seconds):
                answer = bool(await self._ask(gate.check))
        if fault.error is not None:
            log.warning("the gate %r counts as closed: %s", gate.name, fault)
        return answer

    async def _ask(self, check: Check) -> bool:
        """Return the result of a check; a plain function runs in a thread."""
        said = check() if iscoroutinefunction(check) else await self._threads.run(check)
        return bool(await said if isinstance(said, Awaitable) else said)
