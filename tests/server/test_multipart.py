"""Forms with files, as browsers and programs write them, and as attackers do."""

import pytest

from penstock.core.errors import BadRequest, UnsupportedType
from penstock.server.multipart import MAX_PARTS, FormPart, read_form

TYPE = "multipart/form-data; boundary=XX"


def form(*parts: str, end: str = "--XX--\r\n") -> bytes:
    return ("".join(f"--XX\r\n{part}\r\n" for part in parts) + end).encode()


DISPOSITION = 'Content-Disposition: form-data; name="file"; filename="a.txt"'
FILE = f"{DISPOSITION}\r\nContent-Type: text/plain\r\n\r\nHi"


def test_a_file_and_a_field_are_read() -> None:
    field = 'content-disposition: form-data; name="title"\r\n\r\nA title'
    assert read_form(form(FILE, field), TYPE) == [
        FormPart("file", b"Hi", "a.txt", "text/plain"),
        FormPart("title", b"A title"),
    ]


@pytest.mark.parametrize(
    "content", [b"", b"\r\n", b"\r\n--X\r\n--", bytes(range(256)), b"-\r\n--Y"]
)
def test_bytes_come_through_unchanged(content: bytes) -> None:
    head = b'--XX\r\nContent-Disposition: form-data; name="file"\r\n\r\n'
    (part,) = read_form(head + content + b"\r\n--XX--", TYPE)
    assert part.content == content


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ('filename="a \\"b\\".txt"', 'a "b".txt'),
        ('filename="a %22b%22.txt"', 'a "b".txt'),
        ('filename="grüße.txt"', "grüße.txt"),
        ("filename=\"x\"; filename*=UTF-8''gr%C3%BC%C3%9Fe.txt", "grüße.txt"),
        ("filename=a.txt", "a.txt"),
        ('filename=""', ""),
        ('filename="a;name=b"', "a;name=b"),
    ],
)
def test_names_of_files_are_read_as_clients_write_them(written: str, name: str) -> None:
    part = f'Content-Disposition: form-data; name="file"; {written}\r\n\r\nHi'
    (found,) = read_form(form(part), TYPE)
    assert (found.name, found.filename) == ("file", name)


@pytest.mark.parametrize(
    "content_type",
    ['multipart/form-data; boundary="XX"', "Multipart/Form-Data;charset=utf-8; boundary=XX ; a=b"],
)
def test_the_boundary_is_found(content_type: str) -> None:
    assert len(read_form(form(FILE), content_type)) == 1


def test_text_before_the_first_delimiter_is_ignored() -> None:
    assert len(read_form(b"preamble\r\n" + form(FILE), TYPE)) == 1


@pytest.mark.parametrize("content_type", ["", "application/json", "multipart/mixed; boundary=XX"])
def test_another_type_is_refused(content_type: str) -> None:
    with pytest.raises(UnsupportedType):
        read_form(form(FILE), content_type)


@pytest.mark.parametrize(
    ("body", "content_type", "said"),
    [
        (form(FILE), "multipart/form-data", "must have a boundary"),
        (form(FILE), 'multipart/form-data; boundary=""', "must have a boundary"),
        (b"", TYPE, "is cut off"),
        (form(FILE)[:-6], TYPE, "is cut off"),
        (form(FILE), "multipart/form-data; boundary=YY", "is cut off"),
        (form(FILE, end="--XX\r\n"), TYPE, "is cut off"),
        (form(*[FILE] * (MAX_PARTS + 1)), TYPE, "at most 16 fields"),
        (form(*[FILE] * 1000), TYPE, "at most 16 fields"),
        (form("no headers"), TYPE, "no headers"),
        (form("X: " + "y" * 5000 + "\r\n\r\n"), TYPE, "too long ones"),
        (form("Content-Type: text/plain\r\n\r\nHi"), TYPE, "no Content-Disposition"),
        (form("Content-Disposition: form-data\r\n\r\nHi"), TYPE, "has no name"),
        (
            b'--XX\r\nContent-Disposition: form-data; name="\xff"\r\n\r\nHi\r\n--XX--',
            TYPE,
            "not UTF-8",
        ),
    ],
)
def test_a_body_that_is_no_form_is_refused(body: bytes, content_type: str, said: str) -> None:
    with pytest.raises(BadRequest, match=said):
        read_form(body, content_type)
