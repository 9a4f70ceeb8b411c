"""An activation folds what it has not folded yet, and reads nothing that it heard."""

from collections.abc import Sequence

from penstock.core.clock import SystemClock
from penstock.core.events import Record
from penstock.core.ids import LogId
from penstock.models.scripted import ScriptedModel, say
from penstock.testing.log import MemoryLog
from penstock.testing.runtime import Place, memory_runtime


class CountedLog(MemoryLog):
    """Counts how often it is read."""

    reads = 0

    async def read(
        self, log_id: LogId, *, after: int = 0, limit: int | None = None
    ) -> Sequence[Record]:
        self.reads += 1
        return await super().read(log_id, after=after, limit=limit)


async def test_neither_a_new_conversation_nor_the_next_message_is_read() -> None:
    log = CountedLog(SystemClock())
    model = ScriptedModel([say("one"), say("two")])
    async with memory_runtime(model=model, place=Place(log=log)) as runtime:
        first = await runtime.chat("a")
        second = await runtime.chat("b", session_id=first.session_id)
    assert (first.content, second.content) == ("one", "two")
    assert log.reads == 0


async def test_who_was_not_there_reads_the_conversation_once() -> None:
    log = CountedLog(SystemClock())
    place = Place(log=log)
    model = ScriptedModel([say("one"), say("two"), say("three")])
    async with memory_runtime(model=model, place=place) as runtime:
        first = await runtime.chat("a")
    async with memory_runtime(model=model, place=place) as runtime:
        for text in ("b", "c"):
            await runtime.chat(text, session_id=first.session_id)
    assert log.reads == 1
    assert [len(request.messages) for request in model.requests] == [1, 3, 5]
