"""Replies of another process: each piece once, none missing, in order."""

from collections.abc import Sequence

from penstock.chat.log_follower import RemoteReplies
from penstock.core.clock import Moment
from penstock.core.events.events import Event, NoteEmitted, Record, ReplyRestarted
from penstock.core.ids import LogId, TaskId
from penstock.engine.bus import Delta, DeltaKind, OutputSoFar, ReplyStarted
from penstock.store.logs.log import (
    OUTPUT_KIND,
    OUTPUT_UNITS,
    TEXT_START,
    Followed,
    TextPiece,
    TextPosition,
)

LOG, TASK = LogId("conv_1"), TaskId("task_1")


class Said:
    """Live text that a test fills."""

    def __init__(self) -> None:
        self.pieces: list[TextPiece] = []

    def say(self, units: int, text: str, *, base: int = 2, kind: str = "text") -> None:
        spot = TextPosition(base, units)
        piece = TextPiece(task_id=TASK, spot=spot, iteration=1, closing=False, kind=kind, text=text)
        self.pieces.append(piece)

    def listen(self, listener: Followed) -> None: ...

    def is_followed(self, log_id: LogId, epoch: int) -> bool:
        return True

    async def write(self, log_id: LogId, epoch: int, pieces: Sequence[TextPiece]) -> None: ...

    async def read(self, log_id: LogId, *, after: TextPosition = TEXT_START) -> Sequence[TextPiece]:
        return [each for each in self.pieces if each.spot > after]


def shown(items: Sequence[ReplyStarted | Delta | OutputSoFar]) -> list[object]:
    """Return a reply that began as its base, a piece as its kind, text and units, an output."""
    seen: list[object] = []
    for item in items:
        match item:
            case ReplyStarted():
                seen.append(item.reply.base)
            case OutputSoFar():
                seen.append(item.partial)
            case Delta():
                seen.append((item.kind, item.text, item.units))
    return seen


def record(event: Event) -> Record:
    return Record(LOG, 3, Moment(0), TASK, None, event)


async def test_a_remote_reply_arrives_piece_by_piece() -> None:
    live = Said()
    echo = RemoteReplies(live, LOG)
    assert (await echo.listen(), echo.is_on) == ([], False)
    live.say(0, "")
    live.say(2, "Hm", kind="reasoning")
    assert shown(await echo.listen()) == [2, (DeltaKind.REASONING, "Hm", 2)]
    live.say(7, "Hello")
    (delta,) = await echo.listen()
    assert (shown([delta]), echo.is_on) == ([(DeltaKind.TEXT, "Hello", 7)], True)
    assert delta.reply.units == 7
    assert await echo.listen() == []


async def test_the_next_remote_reply_starts_from_its_beginning() -> None:
    live = Said()
    echo = RemoteReplies(live, LOG)
    live.say(2, "Hi")
    await echo.listen()
    live.pieces.clear()
    live.say(0, "", base=5)
    live.say(1, "Y", base=5)
    assert shown(await echo.listen()) == [5, (DeltaKind.TEXT, "Y", 1)]


async def test_a_piece_after_a_gap_is_left_to_the_stored_reply() -> None:
    live = Said()
    echo = RemoteReplies(live, LOG)
    live.say(9, "lo")
    assert (await echo.listen(), echo.is_on) == ([], False)
    live.pieces.clear()
    live.say(2, "He")
    live.say(5, "o")
    assert shown(await echo.listen()) == [2, (DeltaKind.TEXT, "He", 2)]
    assert await echo.listen() == []


async def test_an_event_that_ends_the_reply_ends_the_echo() -> None:
    live = Said()
    echo = RemoteReplies(live, LOG)
    live.say(2, "Hi")
    await echo.listen()
    echo.hear([record(NoteEmitted(event_type="n"))])
    assert echo.is_on
    echo.hear([record(ReplyRestarted(iteration=1))])
    assert not echo.is_on


async def test_the_typed_output_so_far_is_yielded_when_it_has_changed() -> None:
    live = Said()
    echo = RemoteReplies(live, LOG)
    live.say(0, "")
    for text, seen in (("{}", [2, {}]), ("{}", []), ('{"a": null}', [{"a": None}])):
        live.pieces[1:] = []
        live.say(OUTPUT_UNITS, text, kind=OUTPUT_KIND)
        assert shown(await echo.listen()) == seen
    live.pieces.clear()
    live.say(2, "Hi", base=5)
    live.say(OUTPUT_UNITS, "1", base=5, kind=OUTPUT_KIND)
    assert shown(await echo.listen()) == [5, (DeltaKind.TEXT, "Hi", 2), 1]
    echo.pass_over(5)
    assert await echo.listen() == []


async def test_other_notifications_are_ignored() -> None:
    live = Said()
    echo = RemoteReplies(live, LOG)
    live.say(2, "Hi")
    echo.pass_over(2)
    assert await echo.listen() == []
    echo.pass_over(1)
    live.say(1, "Y", base=5)
    assert shown(await echo.listen()) == [5, (DeltaKind.TEXT, "Y", 1)]
