"""Messages of other systems as turns; tests of the archive import them."""

from penstock.chat.python.imported_turns import read_turns
from penstock.core.events.events import ReplyReceived, TaskEnded
from penstock.core.ids import TaskId, new_id


def test_a_turn_without_an_answer_ends_with_an_empty_one() -> None:
    (turn,) = read_turns([{"role": "user", "content": "Hello"}])
    (ended,) = turn.entries(TaskId("task_1"), 3, new_id)
    assert isinstance(ended.event, TaskEnded)
    assert ended.event.content == ""


def test_replies_count_from_the_event_before_them() -> None:
    (turn,) = read_turns(
        [{"role": "user", "content": "Hi"}, *({"role": "assistant", "content": c} for c in "ab")]
    )
    events = [each.event for each in turn.entries(TaskId("task_1"), 3, new_id)]
    bases = [each.base for each in events if isinstance(each, ReplyReceived)]
    assert bases == [3, 4]
