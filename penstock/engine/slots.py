"""How many runs of flows are at work at once in this process; more wait for their waiter."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from enum import Enum

from msgspec import Struct, field

from penstock.core.ids import TaskId
from penstock.core.limits import Limits


class _Kind(Enum):
    ANY = "any"
    OF_TOOLS = "of tools"


class _Slot(Struct, eq=False):
    """What one run takes up while it is at work."""

    kinds: tuple[_Kind, ...]
    is_held: bool = True
    """False while it is lent."""
    calls: int = 0
    """Calls of the run that wait for other runs: while there is one, the slot is lent."""
    reacquiring: asyncio.Lock = field(default_factory=asyncio.Lock)


class _Waiter(Struct, eq=False):
    slot: _Slot
    granted: "asyncio.Future[None]"


class Slots:
    """Lets runs work, at most so many at once, and fewer that were begun by tools.

    A run in which a call waits for another run has lent its slot: of runs that start each other
    one is at work, and none waits for what another holds. Those that go on are before new ones.
    """

    def __init__(self, limits: Limits) -> None:
        self._free = {
            _Kind.ANY: limits.flow_runs,
            _Kind.OF_TOOLS: limits.workflow_max_concurrent,
        }
        self._resuming: list[_Waiter] = []
        self._new: list[_Waiter] = []
        self._slots: dict[TaskId, _Slot] = {}

    @asynccontextmanager
    async def taken(self, run_id: TaskId, *, by_tool: bool, resumes: bool) -> AsyncIterator[None]:
        """Wait for the run's waiter, and keep a slot for it until the block ends."""
        slot = _Slot((_Kind.ANY, _Kind.OF_TOOLS) if by_tool else (_Kind.ANY,))
        await self._take(slot, self._resuming if resumes else self._new)
        self._slots[run_id] = slot
        try:
            yield
        finally:
            del self._slots[run_id]
            if slot.is_held:
                self._count(slot, 1)

    @asynccontextmanager
    async def lent(self, task_id: TaskId) -> AsyncIterator[None]:
        """Let others have the slot of a task while a call in it waits; a chat has none to lend."""
        slot = self._slots.get(task_id)
        if slot is None:
            yield
            return
        slot.calls += 1
        if slot.is_held:
            slot.is_held = False
            self._count(slot, 1)
        try:
            yield
        except BaseException:
            slot.calls -= 1
            self._retake(slot)
            raise
        slot.calls -= 1
        await self._reacquire(slot)

    async def _reacquire(self, slot: _Slot) -> None:
        """Wait for a slot again, unless another call of the run waits."""
        async with slot.reacquiring:
            if slot.calls or slot.is_held:
                return
            try:
                await self._take(slot, self._resuming)
            except BaseException:
                self._retake(slot)
                raise
            slot.is_held = not slot.calls
            if slot.calls:
                self._count(slot, 1)

    def _retake(self, slot: _Slot) -> None:
        """Take a slot without waiting, for who was cut: then there is one too many for a while."""
        if not (slot.calls or slot.is_held):
            slot.is_held = True
            self._count(slot, -1)

    async def _take(self, slot: _Slot, queue: list[_Waiter]) -> None:
        waiter = _Waiter(slot, asyncio.get_running_loop().create_future())
        queue.append(waiter)
        self._grant()
        try:
            await waiter.granted
        except asyncio.CancelledError:
            if waiter in queue:
                queue.remove(waiter)
            else:
                self._count(slot, 1)
            raise

    def _count(self, slot: _Slot, by: int) -> None:
        for kind in slot.kinds:
            self._free[kind] += by
        self._grant()

    def _grant(self) -> None:
        """Let in whose waiter it is; who was cut stands in queue until he learns of it."""
        for queue in (self._resuming, self._new):
            for waiter in list(queue):
                if not waiter.granted.done() and all(
                    self._free[kind] > 0 for kind in waiter.slot.kinds
                ):
                    queue.remove(waiter)
                    for kind in waiter.slot.kinds:
                        self._free[kind] -= 1
                    waiter.granted.set_result(None)
