"""Frames: written and read whole, in pieces, and refused when they cannot be frames."""

import pytest

from penstock.sandbox.processes.frames import FrameReader, frame_of

CONTENT = frame_of("post", [b"text", b"", b"\0\xff"]) + frame_of("idle")


@pytest.mark.parametrize("size", [1, 3, 7, 1000])
def test_frames_are_read_in_pieces_of_any_size(size: int) -> None:
    frames = FrameReader(1000)
    pieces = [CONTENT[at : at + size] for at in range(0, len(CONTENT), size)]
    found = [frame for piece in pieces for frame in frames.feed(piece)]
    assert found == [("post", [b"text", b"", b"\0\xff"]), ("idle", [])]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"\0\0\0\0", "1 to 65536 parts, found 0"),
        (b"\xff\xff\xff\xff", "parts, found 4294967295"),
        (b"\1\0\0\0\xff\xff\xff\x7f", "at most 1000 bytes"),
    ],
)
def test_what_cannot_be_a_frame_is_refused_before_it_is_kept(content: bytes, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        list(FrameReader(1000).feed(content))


def test_a_frame_may_be_as_large_as_its_limit_and_not_a_byte_more() -> None:
    frame = frame_of("post", [b"x" * 100])
    assert list(FrameReader(len(frame)).feed(frame)) == [("post", [b"x" * 100])]
    with pytest.raises(ValueError, match=f"at most {len(frame) - 1} bytes, found {len(frame)}"):
        list(FrameReader(len(frame) - 1).feed(frame))
