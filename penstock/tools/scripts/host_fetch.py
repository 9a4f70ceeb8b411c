"""`fetch`: requests to the hosts that a manifest and the project allow.

A request with an effect is recorded as started before it is sent, and its response before the
script sees it. If a crash falls between the two, it is not known whether the request arrived: the
call ends with INTERRUPTED instead of sending it again, unless the tool is idempotent. Responses are
redacted before they are recorded. The arguments come from the script, which may have replaced the
checks of the guest sources, so `read_fetch` checks all of them. Proof:
tests/tools/scripts/test_host_fetch.py.
"""

import asyncio
from collections.abc import Iterator, Sequence
from hashlib import sha256
from typing import Any

from msgspec import Struct

from penstock.core.call import Call, CallPath, Effect
from penstock.core.call_errors import CallError, Interrupted
from penstock.core.events.events import CallSettled
from penstock.core.state import FilePath, parse_path
from penstock.resources.egress import Egress, EgressCaller, Redirect, Request
from penstock.resources.redact import Redactor
from penstock.sandbox.bridge import HostCallResult
from penstock.tools.invocation import Invocation
from penstock.tools.scripts.arguments import items, mapping, optional_number, optional_text, text
from penstock.tools.scripts.host import Answer
from penstock.tools.scripts.recording import Recording, refused

FETCH = "fetch"
CUT = "this request was cut in the middle: it may or may not have happened"
READS = frozenset({"GET", "HEAD", "OPTIONS"})
FAILED = 400
"""A status from here on is asked for again when the call is tried again."""
MOST_MS = 3_600_000
_MOST_TEXT = 16 * 1024 * 1024
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


class NetAccess(Struct, frozen=True, kw_only=True):
    """The one way out, and what a tool may reach by it."""

    egress: Egress
    asker: EgressCaller
    secrets: Redactor


class FetchCalls:
    """`fetch`."""

    def __init__(self, invocation: Invocation, recording: Recording, access: NetAccess) -> None:
        self._invocation = invocation
        self._recording = recording
        self._access = access
        self._limits = invocation.inside.world.limits
        self._places = asyncio.Semaphore(self._limits.nested_in_flight)
        """Each has a connection, and the process has only so many for all."""

    def fetch(self, arguments: Any) -> Answer:
        """Send a request; what is recorded of it is not sent again."""
        wanted = read_fetch(arguments)
        if not wanted.is_recorded:
            return self._unrecorded(wanted)
        effect = Effect.READ if wanted.method in READS else Effect.WRITE
        path = self._recording.place(FETCH, _shape(arguments), effect, _went_well)
        found = self._recording.find(path, has_bytes=True)
        if found is not None:
            return found
        return self._recording.live(path, self._recorded(path, wanted, effect))

    async def _unrecorded(self, wanted: FetchArguments) -> HostCallResult:
        try:
            async with self._places:
                return self._recording.fresh(await self._answer(wanted))
        except (CallError, TypeError) as error:
            return refused(error, self._recording.now())

    async def _recorded(
        self, path: CallPath, wanted: FetchArguments, effect: Effect
    ) -> HostCallResult:
        async with self._places:
            return await self._sent(path, wanted, effect)

    async def _sent(self, path: CallPath, wanted: FetchArguments, effect: Effect) -> HostCallResult:
        try:
            if effect is Effect.WRITE:
                await self._start(path)
            answer = await self._answer(wanted)
        except (CallError, TypeError) as error:
            return self._recording.refuse(path, FETCH, error)
        except asyncio.CancelledError:
            if effect is Effect.WRITE and not self._may_repeat:
                self._recording.refuse(path, FETCH, Interrupted(CUT))
            raise
        if effect is Effect.WRITE:  # it happened: the script is to know
            return self._recording.settle(path, FETCH, answer)
        return self._recording.settle_read(path, FETCH, answer)

    async def _start(self, path: CallPath) -> None:
        """Note that something is about to be sent. Raises Interrupted after a crash in it."""
        await self._invocation.ledger.start(Call(path, FETCH, {}), again=self._may_repeat)

    @property
    def _may_repeat(self) -> bool:
        spec = self._invocation.spec
        return spec.idempotent or spec.effect is not Effect.WRITE

    async def _answer(self, wanted: FetchArguments) -> dict[str, Any]:
        access = self._access
        answer = await access.egress.fetch(await self._request(wanted), access.asker)
        clean = access.secrets.text
        return {
            "status": answer.status,
            "url": clean(answer.url),
            "headers": {name: clean(value) for name, value in answer.headers.items()},
            "body": access.secrets.bytes(answer.body),
        }

    async def _request(self, wanted: FetchArguments) -> Request:
        headers = wanted.headers
        body: str | bytes | tuple[str | bytes, ...] | None
        if not isinstance(wanted.body, tuple):
            body = wanted.body
        else:
            boundary = self._invocation.ledger.seed(self._invocation.call.path).hex()[:32]
            kind = f"multipart/form-data; boundary={boundary}"
            own = [each for each in headers if each[0].lower() != "content-type"]
            headers = (*own, ("content-type", kind))
            read = [await self._read(part.content) for part in wanted.body]
            body = tuple(multipart(wanted.body, read, boundary))
        return Request(
            url=wanted.url,
            method=wanted.method,
            headers=headers,
            body=body,
            redirect=wanted.redirect,
            seconds=wanted.seconds,
        )

    async def _read(self, content: Content) -> str | bytes:
        """Return the content of a part; only now a file is read."""
        if not isinstance(content, FilePath):
            return content
        return await self._invocation.workspace.read(content, most=self._limits.file_bytes)


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


def _shape(arguments: Any) -> dict[str, Any]:
    """Return what tells one request from another; bytes count by what they are."""
    shape = {name: value for name, value in arguments.items() if name != "attachments"}
    attached = items(arguments, "attachments")
    return shape | {"attachments": [sha256(each).hexdigest() for each in attached]}


def _went_well(settled: CallSettled) -> bool:
    output = settled.envelope.output
    return settled.envelope.ok and isinstance(output, dict) and output.get("status", 0) < FAILED


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
