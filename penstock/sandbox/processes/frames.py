"""Frames between a sandbox and a process: the number of parts, their sizes, the parts."""

import struct
from collections.abc import Iterator, Sequence

MOST_PARTS = 1 << 16
_WORD = 4


def frame_of(kind: str, parts: Sequence[bytes] = ()) -> bytes:
    """Return the bytes of one frame. Its first part is its kind."""
    all_parts = (kind.encode(), *parts)
    head = struct.pack(f"<{len(all_parts) + 1}I", len(all_parts), *map(len, all_parts))
    return b"".join((head, *all_parts))


class FrameReader:
    """Assembles frames from received bytes. Their sender is untrusted."""

    def __init__(self, most_bytes: int) -> None:
        self._unread = bytearray()
        self.most_bytes = most_bytes
        """Largest size of a frame. A larger one is refused before it is buffered."""

    def feed(self, content: bytes) -> Iterator[tuple[str, list[bytes]]]:
        """Yield every complete frame. Raises ValueError for bytes that cannot be a frame."""
        self._unread += content
        while (frame := self._take()) is not None:
            yield frame

    def _take(self) -> tuple[str, list[bytes]] | None:
        unread = self._unread
        if len(unread) < _WORD:
            return None
        count = int.from_bytes(unread[:_WORD], "little")
        if not 1 <= count <= MOST_PARTS:
            raise ValueError(f"a frame has 1 to {MOST_PARTS} parts, found {count}")
        at = _WORD * (count + 1)
        if len(unread) < at:
            return None
        sizes = struct.unpack(f"<{count}I", unread[_WORD:at])
        whole = at + sum(sizes)
        if whole > self.most_bytes:
            raise ValueError(f"a frame has at most {self.most_bytes} bytes, found {whole}")
        if len(unread) < whole:
            return None
        parts = []
        for size in sizes:
            parts.append(bytes(unread[at : at + size]))
            at += size
        del unread[:whole]
        return parts[0].decode("ascii", "replace"), parts[1:]
