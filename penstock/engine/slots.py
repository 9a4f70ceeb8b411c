"""How many runs of flows are at work at once in this process; more wait for their turn."""

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
    coming_back: asyncio.Lock = field(default_factory=asyncio.Lock)


class _Turn(Struct, eq=False):
    slot: _Slot
    has_come: "asyncio.Future[None]"


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
        self._going_on: list[_Turn] = []
        self._new: list[_Turn] = []
        self._slots: dict[TaskId, _Slot] = {}

    @asynccontextmanager
    async def taken(self, run_id: TaskId, *, by_tool: bool, goes_on: bool) -> AsyncIterator[None]:
        """Wait for the run's turn, and keep a slot for it until the block ends."""
        slot = _Slot((_Kind.ANY, _Kind.OF_TOOLS) if by_tool else (_Kind.ANY,))
        await self._take(slot, self._going_on if goes_on else self._new)
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
            self._take_back(slot)
            raise
        slot.calls -= 1
        await self._come_back(slot)

    async def _come_back(self, slot: _Slot) -> None:
        """Wait for a slot again, unless another call of the run waits."""
        async with slot.coming_back:
            if slot.calls or slot.is_held:
                return
            try:
                await self._take(slot, self._going_on)
            except BaseException:
                self._take_back(slot)
                raise
            slot.is_held = not slot.calls
            if slot.calls:
                self._count(slot, 1)

    def _take_back(self, slot: _Slot) -> None:
        """Take a slot without waiting, for who was cut: then there is one too many for a while."""
        if not (slot.calls or slot.is_held):
            slot.is_held = True
            self._count(slot, -1)

    async def _take(self, slot: _Slot, line: list[_Turn]) -> None:
        turn = _Turn(slot, asyncio.get_running_loop().create_future())
        line.append(turn)
        self._admit()
        try:
            await turn.has_come
        except asyncio.CancelledError:
            if turn in line:
                line.remove(turn)
            else:
                self._count(slot, 1)
            raise

    def _count(self, slot: _Slot, by: int) -> None:
        for kind in slot.kinds:
            self._free[kind] += by
        self._admit()

    def _admit(self) -> None:
        """Let in whose turn it is; who was cut stands in line until he learns of it."""
        for line in (self._going_on, self._new):
            for turn in list(line):
                if not turn.has_come.done() and all(
                    self._free[kind] > 0 for kind in turn.slot.kinds
                ):
                    line.remove(turn)
                    for kind in turn.slot.kinds:
                        self._free[kind] -= 1
                    turn.has_come.set_result(None)
