"""What a program sends in a message."""

from pathlib import Path
from typing import Any

import pytest

from penstock import Audio, Document, Image
from penstock.agents.attachments.content import Attachment


def test_a_file_is_named_after_its_path_and_not_read_yet(tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    path.write_bytes(b"not a PNG")
    image = Image.open(str(path))
    assert (image.name, image.path, image.data) == ("a.png", path, None)


def test_a_missing_file_raises_at_once(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"a\.pdf"):
        Document.open(tmp_path / "a.pdf")


@pytest.mark.parametrize("given", ["photo.png", "https://example.org/a.png", Path("a.png")])
def test_a_path_in_place_of_bytes_is_refused_with_what_to_write(given: Any) -> None:
    with pytest.raises(TypeError, match=r"write Image\.open\(path\) for a file, \.from_url"):
        Image(given)


def test_every_source_keeps_its_class_and_name() -> None:
    made = [Audio(b"x", name="a"), Audio.from_url("http://h/a"), Audio.from_upload("ab", name="b")]
    assert {type(each) for each in made} == {Audio}
    assert [each.name for each in made] == ["a", None, "b"]
    assert [each.url for each in made] == [None, "http://h/a", None]
    assert [each.blob_id for each in made] == [None, None, "ab"]


@pytest.mark.parametrize(
    ("attachment", "text"),
    [
        (Image(b"12", name="a.png"), "<Image 'a.png': 2 bytes>"),
        (Attachment.from_url("http://h/a"), "<Attachment http://h/a>"),
        (Attachment.from_upload("ab"), "<Attachment ab>"),
    ],
)
def test_a_file_shows_its_source_and_no_bytes(attachment: Attachment, text: str) -> None:
    assert repr(attachment) == text
