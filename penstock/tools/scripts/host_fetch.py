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
from penstock.core.scopes import FilePath, parse_path
from penstock.resources.egress import Egress, EgressCaller, Redirect, Request
from penstock.resources.redact import Redactor
from penstock.sandbox.bridge import HostCallResult
from penstock.tools.invocation import Invocation
from penstock.tools.scripts.arguments import items, mapping, optional_number, optional_text, text
from penstock.tools.scripts.host import MAX_IN_FLIGHT, Answer
from penstock.tools.scripts.recording import Recording, refused

FETCH = "fetch"
CUT = "this request was interrupted; it may or may not have reached its host"
READS = frozenset({"GET", "HEAD", "OPTIONS"})
FAILED = 400
"""From this status on, a retry of the call sends the request again."""
MAX_MS = 3_600_000
_MAX_TEXT = 16 * 1024 * 1024
Content = str | bytes | FilePath


class FormPart(Struct, frozen=True, kw_only=True):
    """A field or a file of a form."""

    name: str
    content: Content
    filename: str | None = None
    mime_type: str | None = None


Body = str | bytes | tuple[FormPart, ...] | None


class FetchArguments(Struct, frozen=True, kw_only=True):
    """A request of a script, checked."""

    url: str
    method: str
    headers: tuple[tuple[str, str], ...]
    body: Body
    redirect: Redirect
    seconds: float | None
    is_recorded: bool


def read_fetch(arguments: Any) -> FetchArguments:
    """Check the arguments of a fetch. Raises TypeError."""
    ms = optional_number(arguments, "timeout_ms", 0, MAX_MS)
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
    """The network access of a tool."""

    egress: Egress
    asker: EgressCaller
    secrets: Redactor


class FetchCalls:
    """`fetch`."""

    def __init__(self, invocation: Invocation, recording: Recording, access: NetAccess) -> None:
        self._invocation = invocation
        self._recording = recording
        self._access = access
        self._limits = invocation.edition.world.limits
        self._places = asyncio.Semaphore(MAX_IN_FLIGHT)
        """Each request has a connection, and a process has a limited number of them."""

    def fetch(self, arguments: Any) -> Answer:
        """Send a request, or return its recorded response."""
        request = read_fetch(arguments)
        if not request.is_recorded:
            return self._unrecorded(request)
        effect = Effect.READ if request.method in READS else Effect.WRITE
        path = self._recording.place(FETCH, _shape(arguments), effect, _went_well)
        recorded = self._recording.find(path, has_bytes=True)
        if recorded is not None:
            return recorded
        return self._recording.live(path, self._recorded(path, request, effect))

    async def _unrecorded(self, request: FetchArguments) -> HostCallResult:
        try:
            async with self._places:
                return self._recording.fresh(await self._answer(request))
        except (CallError, TypeError) as error:
            return refused(error, self._recording.now())

    async def _recorded(
        self, path: CallPath, request: FetchArguments, effect: Effect
    ) -> HostCallResult:
        async with self._places:
            return await self._sent(path, request, effect)

    async def _sent(
        self, path: CallPath, request: FetchArguments, effect: Effect
    ) -> HostCallResult:
        try:
            if effect is Effect.WRITE:
                await self._start(path)
            answer = await self._answer(request)
        except (CallError, TypeError) as error:
            return self._recording.refuse(path, FETCH, error)
        except asyncio.CancelledError:
            if effect is Effect.WRITE and not self._may_repeat:
                self._recording.refuse(path, FETCH, Interrupted(CUT))
            raise
        # A write has happened, so the script gets its response even beyond the limit of a record.
        if effect is Effect.WRITE:
            return self._recording.settle(path, FETCH, answer)
        return self._recording.settle_read(path, FETCH, answer)

    async def _start(self, path: CallPath) -> None:
        """Record that the request starts. Raises Interrupted if a crash interrupted it before."""
        await self._invocation.ledger.start(Call(path, FETCH, {}), again=self._may_repeat)

    @property
    def _may_repeat(self) -> bool:
        spec = self._invocation.spec
        return spec.idempotent or spec.effect is not Effect.WRITE

    async def _answer(self, request: FetchArguments) -> dict[str, Any]:
        access = self._access
        answer = await access.egress.fetch(await self._request(request), access.asker)
        clean = access.secrets.text
        return {
            "status": answer.status,
            "url": clean(answer.url),
            "headers": {name: clean(value) for name, value in answer.headers.items()},
            "body": access.secrets.bytes(answer.body),
        }

    async def _request(self, request: FetchArguments) -> Request:
        headers = request.headers
        body: str | bytes | tuple[str | bytes, ...] | None
        if not isinstance(request.body, tuple):
            body = request.body
        else:
            # From the seed of the call: the same in each entry, and not known to the script.
            boundary = self._invocation.ledger.seed(self._invocation.call.path).hex()[:32]
            kind = f"multipart/form-data; boundary={boundary}"
            # A content type of the script would name another boundary.
            kept = [pair for pair in headers if pair[0].lower() != "content-type"]
            headers = (*kept, ("content-type", kind))
            contents = [await self._read(part.content) for part in request.body]
            body = tuple(multipart(request.body, contents, boundary))
        return Request(
            url=request.url,
            method=request.method,
            headers=headers,
            body=body,
            redirect=request.redirect,
            seconds=request.seconds,
        )

    async def _read(self, content: Content) -> str | bytes:
        """Return the content of a part. Files are read here, when the form is sent."""
        if not isinstance(content, FilePath):
            return content
        return await self._invocation.workspace.read(content, most=self._limits.file_bytes)


def multipart(
    parts: Sequence[FormPart], contents: Sequence[str | bytes], boundary: str
) -> Iterator[Any]:
    """Yield the parts of a form (RFC 7578). `contents` are those of `parts`, with files read."""
    for part, content in zip(parts, contents, strict=True):
        head = f'--{boundary}\r\nContent-Disposition: form-data; name="{_quoted(part.name)}"'
        if part.filename is not None:
            kind = _line(part.mime_type or "application/octet-stream")
            head += f'; filename="{_quoted(part.filename)}"\r\nContent-Type: {kind}'
        yield f"{head}\r\n\r\n".encode()
        yield content
        yield b"\r\n"
    yield f"--{boundary}--\r\n".encode()


def _shape(arguments: Any) -> dict[str, Any]:
    """Return the identity of a request, with a hash in place of each attachment."""
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


def _redirect(value: Any) -> Redirect:
    if value not in list(Redirect):
        raise TypeError(f"redirect must be one of {', '.join(Redirect)}, found {value!r:.80}")
    return Redirect(value)


def _body(arguments: Any) -> Body:
    if arguments.get("body") is None:
        return None
    body, attached = mapping(arguments, "body"), items(arguments, "attachments")
    match body.get("kind"):
        case "text" if "attachment" in body:
            return _attachment(body, attached).decode("utf-8", "replace")
        case "text":
            return text(body, "text", least=0, most=_MAX_TEXT)
        case "bytes":
            return _attachment(body, attached)
        case "form":
            return tuple(_part(part, attached) for part in items(body, "parts"))
        case kind:
            raise TypeError(f"a body is a text, bytes or a form, found {kind!r:.80}")


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
        return text(part, "text", least=0, most=_MAX_TEXT)
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
        raise TypeError(f"a body names an attachment that was not sent: {number!r:.80}")
    content: bytes = attached[number]
    return content


def _quoted(name: str) -> str:
    # As browsers do: a line end or a quote in a name would end the header.
    return name.replace("\r", "%0D").replace("\n", "%0A").replace('"', "%22")


def _line(value: str) -> str:
    return value.replace("\r", "").replace("\n", "")
