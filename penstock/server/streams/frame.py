"""Frames of a stream: their positions, those a reader has not seen, and those of a model reply.

The position of a frame is its id on the wire. `17` is event 17 of the log. `17.412` is unit 412 of
the model reply that follows event 17; units are characters of reasoning and text, then tool calls.
So a reader that reconnects with the id of its last frame resumes in the middle of a reply.
Positions compare as pairs of numbers: `17` < `17.0` < `17.412` < `18`. The ids of the frames of one
stream rise strictly.

A reply has the same frames whether it is shown while it arrives (`ReplyFrames.say`) or from its
stored event (`finish`). A position counts units from the start of the reply, so both paths show
only the units that the reader does not have. This relies on `Delta.units` and
`ReplyReceived.order`: both count reasoning and text in the order in which the model produced them.

A typed output has frames without an id while it streams: each replaces the one before, and the last
frame of its task has the whole, so a reader that reconnects misses nothing.

Tests: tests/server/streams/test_frame.py.
"""

import re
from typing import Any, NamedTuple

from penstock.chat.wire_forms import call_part
from penstock.core.errors import BadLastEventId
from penstock.core.events.events import ReplyReceived
from penstock.core.text import cut
from penstock.engine.bus import Delta, DeltaKind, LiveReply, OutputSoFar

_WHOLE = -1
_ID = re.compile(r"(0|[1-9][0-9]{0,17})(?:\.(0|[1-9][0-9]{0,17}))?")

ARGUMENT_CHARS = 2000
"""Longest `argumentsText`: the arguments of a call that are not a JSON object."""


class Position(NamedTuple):
    """Event `seq`, or a number of units into the reply that follows it."""

    seq: int
    units: int = _WHOLE

    def __str__(self) -> str:
        """Return the position as the id of a frame."""
        return str(self.seq) if self.units == _WHOLE else f"{self.seq}.{self.units}"

    @property
    def is_whole(self) -> bool:
        """Whether the position is an event, not inside the reply that follows."""
        return self.units == _WHOLE

    @classmethod
    def parse(cls, text: str) -> "Position":
        """Parse the id of a frame. Raises BadLastEventId."""
        match = _ID.fullmatch(text)
        if match is None:
            raise BadLastEventId(f'an event id is like "17" or "17.412", found {cut(text, 60)!r}')
        seq, units = match.groups()
        return cls(int(seq), _WHOLE if units is None else int(units))


Frame = tuple[Position | None, dict[str, Any]]
"""A frame with its id; None for one that follows from no event, and is not sent again."""


class UnseenFrames:
    """The frames that a reader has not seen: those with positions after `last`."""

    __slots__ = ("_frames", "_held", "last")

    def __init__(self, last: Position) -> None:
        self.last = last
        """The position of the newest frame that the reader has, or that was added."""
        self._frames: list[Frame] = []
        self._held: list[tuple[Position, dict[str, Any]]] = []

    def add(self, position: Position, frame: dict[str, Any]) -> None:
        """Add a frame, unless the reader already has it."""
        while self._held and self._held[0][0] < position:
            self._append(*self._held.pop(0))
        self._append(position, frame)

    def hold(self, position: Position, frame: dict[str, Any]) -> None:
        """Delay a frame until one with a later position is added; earlier ones may still come."""
        self._held.append((position, frame))

    def pass_on(self, frame: dict[str, Any]) -> None:
        """Add a frame without an id."""
        self._frames.append((None, frame))

    def take(self) -> list[Frame]:
        """Return and clear the frames that were added since the last call."""
        frames, self._frames = self._frames, []
        return frames

    def _append(self, position: Position, frame: dict[str, Any]) -> None:
        if position > self.last:
            self.last = position
            self._frames.append((position, frame))


class ReplyFrames:
    """Converts replies to frames, live or stored, starting after the last unit seen."""

    __slots__ = ("_iteration", "_max_iterations", "_unseen")

    def __init__(self, unseen: UnseenFrames, *, max_iterations: int) -> None:
        self._unseen = unseen
        self._max_iterations = max_iterations
        self._iteration = 0

    def begin_task(self, max_iterations: int) -> None:
        """Count the requests of a new task."""
        self._iteration, self._max_iterations = 0, max_iterations

    def hand_off(self, max_iterations: int) -> None:
        """Add the requests of an agent that takes over; those of the previous one stay counted."""
        self._max_iterations = self._iteration + max_iterations

    def begin(self, reply: LiveReply | ReplyReceived) -> None:
        """Add the frame that announces a model request; a closing request has none."""
        if not reply.closing:
            self._iteration = iteration = reply.iteration
            frame = {
                "type": "thinking",
                "iteration": iteration,
                "maxIterations": self._max_iterations,
            }
            self._unseen.add(Position(reply.base, 0), frame)

    def say(self, delta: Delta) -> None:
        """Add a piece of a reply that is still arriving."""
        self._piece(delta.reply, delta.kind, delta.text, delta.units)

    def show_output(self, output: OutputSoFar) -> None:
        """Add the typed output so far of a reply that is still arriving."""
        reply = output.reply
        if reply.base >= self._unseen.last.seq:
            frame = {"type": "output_delta", "iteration": reply.iteration}
            self._unseen.pass_on(frame | {"partial": output.partial})

    def finish(self, seq: int, reply: ReplyReceived) -> list[dict[str, Any]]:
        """Add the rest of a stored reply, which is event `seq`; return its calls."""
        self.begin(reply)
        if self._unseen.last < (reply.base, len(reply.reasoning) + len(reply.text)):
            self._pieces(reply)
        return self.ask(seq, reply)

    def ask(self, seq: int, reply: ReplyReceived) -> list[dict[str, Any]]:
        """Add the calls of a stored reply, and return them."""
        units = len(reply.reasoning) + len(reply.text)
        calls = [call_part(call) for call in reply.calls]
        for number, (call, shown) in enumerate(zip(reply.calls, calls, strict=True), 1):
            frame = {"type": "tool_call"} | shown | {"iteration": reply.iteration}
            if call.arguments_text is not None:
                frame["argumentsText"] = cut(call.arguments_text, ARGUMENT_CHARS)
            # only the last frame has the event's id: a reader that has this id has all of them
            is_last = number == len(calls)
            position = Position(seq) if is_last else Position(reply.base, units + number)
            self._unseen.add(position, frame)
        return calls

    def _pieces(self, reply: ReplyReceived) -> None:
        """Add the stored reasoning and text in the order in which the model alternated them."""
        whole = {DeltaKind.REASONING: reply.reasoning, DeltaKind.TEXT: reply.text}
        taken = dict.fromkeys(whole, 0)
        kind, end = DeltaKind.REASONING, 0
        for length in reply.order or (len(reply.reasoning), len(reply.text)):
            start = taken[kind]
            taken[kind] = start + length
            end += length
            self._piece(reply, kind, whole[kind][start : start + length], end)
            kind = DeltaKind.TEXT if kind is DeltaKind.REASONING else DeltaKind.REASONING

    def _piece(
        self, reply: LiveReply | ReplyReceived, kind: DeltaKind, text: str, end: int
    ) -> None:
        """Add the unseen part of a piece whose last unit is `end`."""
        seq, shown = self._unseen.last
        base = reply.base
        if base < seq or not text:
            return
        unseen = end - shown if base == seq else end
        if unseen <= 0:
            return
        delta = text[-unseen:] if unseen < len(text) else text
        frame: dict[str, Any]
        if kind is DeltaKind.REASONING:
            frame = {"type": "thinking", "iteration": reply.iteration, "delta": delta}
        elif reply.closing:
            frame = {"type": "content_delta", "closing": True, "delta": delta}
        else:
            frame = {"type": "content_delta", "iteration": reply.iteration, "delta": delta}
        self._unseen.add(Position(base, end), frame)
