"""What a replay with `live` asks and runs after its first difference."""

import pytest

from penstock import ReplayChanges
from penstock.models.scripted import ScriptedModel, call, say
from penstock.testing.runtime import MemoryStorage
from tests.kit.replays import ASKED, RUNS, TOOLS, found, look_up, one_task, replayed


@pytest.fixture
async def place() -> MemoryStorage:
    """A storage with one task, in which tools succeed, fail and refuse their input."""
    place = MemoryStorage()
    await one_task(place)
    return place


async def test_a_replay_with_live_names_the_first_call_that_differs(place: MemoryStorage) -> None:
    """The model is asked; a recorded call gets its outcome, and a new write never runs."""
    model = ScriptedModel([ASKED[0] + call("look_up", word="tea"), call("note_down", text="milk")])
    changes = ReplayChanges(system_prompt="Be brief.")
    report = await replayed(place, model=model, tools=(*TOOLS, look_up), changes=changes, live=True)
    assert (found(report), report.stopped) == (("prompt", "task/1"), "write")
    assert RUNS == ["tea"]  # of the tool that only reads; the recorded calls did not run
    assert [(each.kind, each.path) for each in report.later] == [
        ("reply", "task/1"),
        ("reply", "task/2"),
        ("tool_input", "task/2/note_down#1"),
    ]
    assert report.usage.model_calls == 2


async def test_another_model_is_asked_with_live(place: MemoryStorage) -> None:
    model = ScriptedModel([say("I cannot say.")])
    changes = ReplayChanges(model=model.card.model_id)
    report = await replayed(place, model=model, changes=changes, live=True)
    assert (found(report), report.stopped) == (("reply", "task/1"), "end")
