"""Slots: how many flow runs work at once in this process.

Guarantees: at most `limits.flow_runs` runs work at once, and at most
`limits.workflow_max_concurrent` of those started by tools. Runs that wait for each other cannot
deadlock: a run lends its slot while one of its calls waits for another run. Resumed runs go before
new ones, each queue in order of arrival, except that a run started by a tool lets others pass while
its own limit is reached.

Hard part: cancellation. A waiter that is cancelled after its slot was granted, but before it
resumed, still owns the slot and returns it. A call that fails while its slot is lent cannot wait
for a slot, because its error must propagate at once: it retakes one immediately, and for a while
one run more than the limit works. Two calls of one run may end together; a lock per slot lets only
one of them reacquire it. Shown by tests/engine/test_run_slots.py.
"""

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
    """The slot of one run."""

    kinds: tuple[_Kind, ...]
    is_held: bool = True
    """False while the slot is lent."""
    calls: int = 0
    """Calls of the run that wait for other runs; the slot is lent while there are any."""
    reacquiring: asyncio.Lock = field(default_factory=asyncio.Lock)


class _Waiter(Struct, eq=False):
    slot: _Slot
    granted: "asyncio.Future[None]"


class Slots:
    """Limits the flow runs that work at once, with a lower limit for runs started by tools."""

    def __init__(self, limits: Limits) -> None:
        self._free = {
            _Kind.ANY: limits.flow_runs,
            _Kind.OF_TOOLS: limits.workflow_max_concurrent,
        }
        self._resuming: list[_Waiter] = []
        self._new: list[_Waiter] = []
        self._slots: dict[TaskId, _Slot] = {}

    @property
    def are_taken(self) -> bool:
        """Whether a new run must wait for a slot."""
        return self._free[_Kind.ANY] <= 0

    @asynccontextmanager
    async def taken(self, run_id: TaskId, *, by_tool: bool, resumes: bool) -> AsyncIterator[None]:
        """Wait for a slot and hold it for the run until the block ends."""
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
        """Lend the slot of a run while one of its calls waits. A chat has no slot to lend."""
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
        """Wait for a slot, unless another call of the run still waits."""
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
        """Take a slot without waiting, after an error; the limit is exceeded for a while."""
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
            else:  # granted before the cancellation arrived
                self._count(slot, 1)
            raise

    def _count(self, slot: _Slot, by: int) -> None:
        for kind in slot.kinds:
            self._free[kind] += by
        self._grant()

    def _grant(self) -> None:
        """Grant free slots in order. A cancelled waiter stays queued until it resumes."""
        for queue in (self._resuming, self._new):
            for waiter in list(queue):
                if not waiter.granted.done() and all(
                    self._free[kind] > 0 for kind in waiter.slot.kinds
                ):
                    queue.remove(waiter)
                    for kind in waiter.slot.kinds:
                        self._free[kind] -= 1
                    waiter.granted.set_result(None)
