"""The body of a form with files (multipart/form-data, RFC 7578), read from memory.

The body is hostile, and its size is limited before it comes here. Reading takes one pass over it:
parts are found by their delimiter, and only the headers of a part are decoded. Anything that is not
in the form is a BadRequest; nothing is guessed. A parser for streams is not needed for bodies that
are kept in memory anyway, see docs/decisions/054. Tests: tests/server/test_multipart.py.
"""

import re
from urllib.parse import unquote

from msgspec import Struct

from penstock.core.errors import BadRequest, UnsupportedType

FORM_TYPE = "multipart/form-data"
MAX_PARTS = 16
MAX_HEAD = 4096
"""Bytes of the headers of a part."""
OVERHEAD = 16 * 1024
"""Bytes of a body in addition to its file."""
_BOUNDARY = re.compile(r";\s*boundary=(?:\"([^\"]{1,70})\"|([!#-:<-~]{1,70}))\s*(?:;|$)")
_PARAMETER = re.compile(r";\s*([A-Za-z*]{1,20})=(?:\"((?:[^\"\\]|\\.)*)\"|([^\s;]*))")
_EXTENDED = "utf-8''"


class FormPart(Struct, frozen=True):
    """A field of a form."""

    name: str
    content: bytes
    filename: str | None = None
    media_type: str | None = None


def read_form(body: bytes, content_type: str) -> list[FormPart]:
    """Return the fields of a form. Raises UnsupportedType and BadRequest."""
    kind, _, parameters = content_type.partition(";")
    if kind.strip().lower() != FORM_TYPE:
        raise UnsupportedType(f"the content type must be {FORM_TYPE}, found {kind.strip()!r:.100}")
    match = _BOUNDARY.search(f";{parameters}")
    if match is None:
        raise BadRequest(f"the content type {FORM_TYPE} must have a boundary")
    delimiter = b"\r\n--" + (match[1] or match[2]).encode("latin-1", "replace")
    pieces = (b"\r\n" + body).split(delimiter, MAX_PARTS + 2)
    if len(pieces) > MAX_PARTS + 2:
        raise BadRequest(f"a form has at most {MAX_PARTS} fields")
    *fields, end = pieces[1:] or [b""]
    if not end.startswith(b"--"):
        raise BadRequest("the body is cut off, or has another boundary than its content type")
    return [_field(each) for each in fields]


def _field(piece: bytes) -> FormPart:
    # A delimiter ends with its line; blanks before that are allowed (RFC 2046).
    rest, head_end = piece.lstrip(b" \t"), -1
    if rest.startswith(b"\r\n"):
        head_end = rest.find(b"\r\n\r\n", 0, MAX_HEAD)
    if head_end < 0:
        raise BadRequest("a field of the form has no headers, or too long ones")
    try:
        lines = rest[:head_end].decode().split("\r\n")
    except UnicodeDecodeError:
        raise BadRequest("the headers of a field are not UTF-8") from None
    headers = {name.strip().lower(): value.strip() for name, _, value in map(_halves, lines)}
    disposition = headers.get("content-disposition", "")
    if not disposition.lower().startswith("form-data"):
        raise BadRequest("a field of the form has no Content-Disposition: form-data")
    values = {
        name.lower(): quoted or plain for name, quoted, plain in _PARAMETER.findall(disposition)
    }
    if "name" not in values:
        raise BadRequest("a field of the form has no name")
    return FormPart(
        name=values["name"],
        content=rest[head_end + 4 :],
        filename=_filename(values),
        media_type=headers.get("content-type"),
    )


def _halves(line: str) -> tuple[str, str, str]:
    return line.partition(":")


def _filename(values: dict[str, str]) -> str | None:
    extended = values.get("filename*", "")
    if extended.lower().startswith(_EXTENDED):
        return unquote(extended[len(_EXTENDED) :], errors="replace")
    name = values.get("filename")
    # Browsers write a quote as %22 (the HTML standard); other programs write it as \".
    return None if name is None else re.sub(r"\\(.)", r"\1", name).replace("%22", '"')
