"""Carries out the calls of a reply: together, one after the other, alone."""

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any

from penstock.agents.guard import LoopGuard
from penstock.agents.settings import ChatSettings
from penstock.core.call import Call
from penstock.core.call_errors import CallError
from penstock.core.signals import Suspend
from penstock.engine.ledger import Ledger
from penstock.tools.access.policy import Caller
from penstock.tools.invoker import Invoker


class CallRunner:
    """What carries out the calls of a task."""

    __slots__ = ("_guard", "_most", "_settings", "invoker", "ledger")

    def __init__(self, invoker: Invoker, ledger: Ledger, settings: ChatSettings) -> None:
        self.invoker = invoker
        self.ledger = ledger
        self._guard: LoopGuard | None = None
        self._settings = settings
        self._most = settings.max_parallel_tools

    @property
    def guard(self) -> LoopGuard:
        """Return what sees every call; made at the first, for many a reply has none."""
        if self._guard is None:
            self._guard = self.guarding()
        return self._guard

    def guarding(self) -> LoopGuard:
        """Return a guard that has seen nothing."""
        return LoopGuard(self._settings)

    @property
    def blocked(self) -> int:
        """Calls of this task that the guard stopped."""
        return 0 if self._guard is None else self._guard.blocked

    async def run(self, calls: Sequence[Call], caller: Caller) -> None:
        """Make these calls of a model, each as its tool wants to run beside others.

        Raises Suspend when some wait for people; the others are settled then.
        """
        if len(calls) == 1:
            await self.invoker.call(calls[0], caller, self.ledger)
            return
        waiting: list[Suspend] = []
        for batch in self._batches(calls):
            ended = await asyncio.gather(*self._begun(batch, caller), return_exceptions=True)
            for each in ended:
                if isinstance(each, Suspend):
                    waiting.append(each)
                elif isinstance(each, BaseException):
                    raise each
        if waiting:
            raise Suspend(*[awaited for each in waiting for awaited in each.awaited])

    def _begun(self, calls: Sequence[Call], caller: Caller) -> "list[asyncio.Task[Any]]":
        """Begin calls: at most so many at once, and those of a key one after the other."""
        told = [(call, key) for call in calls for key in self._keys(call)]
        door, ledger = self.invoker.call, self.ledger
        if len(told) <= self._most and not any(key for _, key in told):
            begin = asyncio.get_running_loop().create_task
            return [begin(door(call, caller, ledger)) for call, _ in told]
        slots = asyncio.Semaphore(self._most)
        locks: dict[str, asyncio.Lock] = {}

        async def one(call: Call, key: str | None) -> None:
            if key is None:
                async with slots:
                    await door(call, caller, ledger)
                return
            async with locks.setdefault(key, asyncio.Lock()), slots:
                await door(call, caller, ledger)

        return [asyncio.create_task(one(*each)) for each in told]

    def _batches(self, calls: Sequence[Call]) -> Iterator[list[Call]]:
        """Part the calls where one wants to run alone."""
        batch: list[Call] = []
        for call in calls:
            tool = self.invoker.registry.find(call.tool_id)
            if tool is None or tool.spec.exclusive is not True:
                batch.append(call)
                continue
            if batch:
                yield batch
            yield [call]
            batch = []
        if batch:
            yield batch

    def _keys(self, call: Call) -> Iterator[str | None]:
        """Yield the key that a call runs under, if any; nothing if the tool cannot tell it."""
        try:
            yield self.invoker.key_of(call)
        except CallError as error:
            self.invoker.refuse(call, self.ledger, error, "")
