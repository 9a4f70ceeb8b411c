"""What a script wants to send: the arguments of `fetch`, read once and trusted after."""

from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import Struct

from penstock.core.state import FilePath, parse_path
from penstock.resources.egress import Redirect
from penstock.tools.scripts.arguments import items, mapping, optional_number, optional_text, text

MOST_MS = 3_600_000
Content = str | bytes | FilePath


class FormPart(Struct, frozen=True, kw_only=True):
    """A field or a file of a form."""

    name: str
    content: Content
    filename: str | None = None
    mime_type: str | None = None


Body = str | bytes | tuple[FormPart, ...] | None


class FetchArguments(Struct, frozen=True, kw_only=True):
    """A request as the script wants it."""

    url: str
    method: str
    headers: tuple[tuple[str, str], ...]
    body: Body
    redirect: Redirect
    seconds: float | None
    is_recorded: bool


def read_fetch(arguments: Any) -> FetchArguments:
    """Return what is to be sent. Raises TypeError."""
    ms = optional_number(arguments, "timeout_ms", 0, MOST_MS)
    return FetchArguments(
        url=text(arguments, "url"),
        method=text(arguments, "method", most=40),
        headers=tuple(map(_header, items(arguments, "headers"))),
        body=_body(arguments),
        redirect=_redirect(arguments.get("redirect", "follow")),
        seconds=None if ms is None else ms / 1000,
        is_recorded=arguments.get("record", True) is not False,
    )


def multipart(
    parts: Sequence[FormPart], read: Sequence[str | bytes], boundary: str
) -> Iterator[Any]:
    """Yield a form as it is sent (RFC 7578); `read` holds the contents, files read."""
    for part, content in zip(parts, read, strict=True):
        head = f'--{boundary}\r\nContent-Disposition: form-data; name="{_quoted(part.name)}"'
        if part.filename is not None:
            kind = _line(part.mime_type or "application/octet-stream")
            head += f'; filename="{_quoted(part.filename)}"\r\nContent-Type: {kind}'
        yield f"{head}\r\n\r\n".encode()
        yield content
        yield b"\r\n"
    yield f"--{boundary}--\r\n".encode()


def _header(pair: Any) -> tuple[str, str]:
    if not isinstance(pair, list | tuple) or len(pair) != 2:  # noqa: PLR2004  a name and a value
        raise TypeError("a header is a name and a value")
    named = {"name": pair[0], "value": pair[1]}
    return text(named, "name"), text(named, "value", least=0)


def _redirect(said: Any) -> Redirect:
    if said not in list(Redirect):
        raise TypeError(f"redirect must be one of {', '.join(Redirect)}, found {said!r:.80}")
    return Redirect(said)


def _body(arguments: Any) -> Body:
    if arguments.get("body") is None:
        return None
    body, attached = mapping(arguments, "body"), items(arguments, "attachments")
    match body.get("kind"):
        case "text" if "attachment" in body:
            return _attachment(body, attached).decode("utf-8", "replace")
        case "text":
            return text(body, "text", least=0, most=_MOST_TEXT)
        case "bytes":
            return _attachment(body, attached)
        case "form":
            return tuple(_part(each, attached) for each in items(body, "parts"))
        case found:
            raise TypeError(f"a body is a text, bytes or a form, found {found!r:.80}")


def _part(part: Any, attached: Sequence[Any]) -> FormPart:
    if not isinstance(part, dict):
        raise TypeError("a part of a form is an object")
    return FormPart(
        name=text(part, "name", least=0),
        content=_content(part, attached),
        filename=optional_text(part, "filename"),
        mime_type=optional_text(part, "type"),
    )


def _content(part: Any, attached: Sequence[Any]) -> Content:
    if "text" in part:
        return text(part, "text", least=0, most=_MOST_TEXT)
    if "path" not in part:
        return _attachment(part, attached)
    try:
        return parse_path(text(part, "path"))
    except ValueError as error:
        raise TypeError(str(error)) from None


def _attachment(holder: Any, attached: Sequence[Any]) -> bytes:
    number = holder.get("attachment")
    is_number = isinstance(number, int) and not isinstance(number, bool)
    if not is_number or not 0 <= number < len(attached) or type(attached[number]) is not bytes:
        raise TypeError("there are no such bytes")
    found: bytes = attached[number]
    return found


def _quoted(name: str) -> str:
    return name.replace("\r", "%0D").replace("\n", "%0A").replace('"', "%22")


def _line(value: str) -> str:
    return value.replace("\r", "").replace("\n", "")


_MOST_TEXT = 16 * 1024 * 1024
