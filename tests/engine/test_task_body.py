"""What a body of tasks says unless it is told otherwise."""

from penstock.engine.task_body import lack_nothing, tell_nobody
from tests.kit.events import held_log


async def test_a_task_lacks_nothing_and_its_end_is_reported_to_nobody() -> None:
    held = await held_log()
    task = held.state.next_task()
    assert task
    assert lack_nothing(held.state, task) == ()
    before = held.state.tick
    await tell_nobody(held, task)
    assert held.state.tick == before
