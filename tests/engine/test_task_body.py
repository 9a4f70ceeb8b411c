"""What a body does that leaves out the optional functions."""

from penstock.core.task import Missing, MissingKind
from penstock.engine.task_body import Lack, Need, have_nothing, ignore_end, lack_nothing
from tests.kit.events import LOG, held_log


async def test_a_task_lacks_nothing_and_its_end_is_ignored() -> None:
    held = await held_log()
    task = held.state.next_task()
    assert task
    assert lack_nothing(held.state, task) is None
    assert not have_nothing(LOG, Lack((Need(Missing(MissingKind.AGENT, "clerk")),)))
    before = held.state.tick
    await ignore_end(held, task)
    assert held.state.tick == before
