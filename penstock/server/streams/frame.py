"""One item of the chat stream, and its place in it."""

import re
from typing import Any, NamedTuple

from penstock.core.errors import BadLastEventId
from penstock.core.text import cut

_WHOLE = -1
_ID = re.compile(r"(0|[1-9][0-9]{0,17})(?:\.(0|[1-9][0-9]{0,17}))?")


class Position(NamedTuple):
    """A place in the stream: event `seq`, or some units into the reply that follows it."""

    seq: int
    units: int = _WHOLE

    def __str__(self) -> str:
        """Return the place as the id of a frame."""
        return str(self.seq) if self.units == _WHOLE else f"{self.seq}.{self.units}"

    @property
    def is_whole(self) -> bool:
        """Whether it is an event, not a place in the reply that follows."""
        return self.units == _WHOLE

    @classmethod
    def parse(cls, text: str) -> "Position":
        """Read the id of a frame. Raises BadLastEventId."""
        match = _ID.fullmatch(text)
        if match is None:
            raise BadLastEventId(f'an event id is like "17" or "17.412", found {cut(text, 60)!r}')
        seq, units = match.groups()
        return cls(int(seq), _WHOLE if units is None else int(units))


Frame = tuple[Position, dict[str, Any]]


class UnseenFrames:
    """The frames that a reader has not seen yet: each stands after the last."""

    __slots__ = ("_frames", "_held", "last")

    def __init__(self, last: Position) -> None:
        self.last = last
        """The place that the reader has come to."""
        self._frames: list[Frame] = []
        self._held: list[Frame] = []

    def add(self, position: Position, frame: dict[str, Any]) -> None:
        """Take in a frame, unless the reader has come past its place."""
        while self._held and self._held[0][0] < position:
            self._show(*self._held.pop(0))
        self._show(position, frame)

    def hold(self, position: Position, frame: dict[str, Any]) -> None:
        """Keep a frame back until one comes that stands after it: others stand before it."""
        self._held.append((position, frame))

    def take(self) -> list[Frame]:
        """Return what was added since the last time."""
        frames, self._frames = self._frames, []
        return frames

    def _show(self, position: Position, frame: dict[str, Any]) -> None:
        if position > self.last:
            self.last = position
            self._frames.append((position, frame))
