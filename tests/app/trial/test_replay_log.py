"""The log of a replay writes nothing."""

from penstock import ReplayChanges
from penstock.core.ids import LogId
from penstock.store.projections import Page
from penstock.testing.runtime import MemoryStorage
from tests.kit.replays import one_task, replayed


async def test_neither_the_log_nor_its_blobs_change() -> None:
    place = MemoryStorage()
    await one_task(place)
    (task,), _ = await place.log.tasks(page=Page(limit=1))
    before = await place.log.read(LogId(task.log_id))
    assert (await replayed(place)).equal
    changes = ReplayChanges(tools={"note_down": {"requires_approval": True}})
    assert not (await replayed(place, changes=changes)).equal
    assert await place.log.read(LogId(task.log_id)) == before
    assert await place.log.pending(limit=9) == []
