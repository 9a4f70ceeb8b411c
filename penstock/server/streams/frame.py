"""One frame of a stream, and its position, which is the frame's id on the wire.

The position `17` is event 17 of the log. `17.412` is unit 412 of the model reply that follows event
17; units are characters of reasoning and text, then tool calls. So a reader that reconnects with
the id of its last frame resumes in the middle of a reply. Positions compare as pairs of numbers:
`17` < `17.0` < `17.412` < `18`. The ids of the frames of one stream rise strictly.

Tests: tests/server/streams/test_frame.py, test_reply.py.
"""

import re
from typing import Any, NamedTuple

from penstock.core.errors import BadLastEventId
from penstock.core.text import cut

_WHOLE = -1
_ID = re.compile(r"(0|[1-9][0-9]{0,17})(?:\.(0|[1-9][0-9]{0,17}))?")


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


Frame = tuple[Position, dict[str, Any]]


class UnseenFrames:
    """The frames that a reader has not seen: those with positions after `last`."""

    __slots__ = ("_frames", "_held", "last")

    def __init__(self, last: Position) -> None:
        self.last = last
        """The position of the newest frame that the reader has, or that was added."""
        self._frames: list[Frame] = []
        self._held: list[Frame] = []

    def add(self, position: Position, frame: dict[str, Any]) -> None:
        """Add a frame, unless the reader already has it."""
        while self._held and self._held[0][0] < position:
            self._append(*self._held.pop(0))
        self._append(position, frame)

    def hold(self, position: Position, frame: dict[str, Any]) -> None:
        """Delay a frame until one with a later position is added; earlier ones may still come."""
        self._held.append((position, frame))

    def take(self) -> list[Frame]:
        """Return and clear the frames that were added since the last call."""
        frames, self._frames = self._frames, []
        return frames

    def _append(self, position: Position, frame: dict[str, Any]) -> None:
        if position > self.last:
            self.last = position
            self._frames.append((position, frame))
