"""`fetch`: requests to the hosts that a manifest and the project allow."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from penstock.core.call import Call, CallPath, Effect
from penstock.core.call_errors import CallError
from penstock.core.events import CallSettled
from penstock.core.paths import parse_path
from penstock.resources.egress import Asker, Egress, Redirect, Request
from penstock.resources.redact import Redactor
from penstock.sandbox.bridge import Settled
from penstock.tools.arguments import mapping, optional_number, text
from penstock.tools.host import Answer
from penstock.tools.invocation import Invocation
from penstock.tools.recording import Recording, refused

FETCH = "fetch"
READS = frozenset({"GET", "HEAD", "OPTIONS"})
FAILED = 400
"""A status from here on is asked for again when the call is tried again."""
Part = bytes | str
"""Of a body: in a text, handles are opened."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NetAccess:
    """The one way out, and what a tool may reach by it."""

    egress: Egress
    asker: Asker
    secrets: Redactor


class FetchCalls:
    """`fetch`."""

    def __init__(self, invocation: Invocation, recording: Recording, access: NetAccess) -> None:
        self._invocation = invocation
        self._recording = recording
        self._access = access
        self._limits = invocation.inside.world.limits

    def fetch(self, arguments: Any) -> Answer:
        """Send a request; what is recorded of it is not sent again."""
        method = text(arguments, "method", most=32)
        if arguments.get("record", True) is False:
            return self._unrecorded(arguments)
        effect = Effect.READ if method in READS else Effect.WRITE
        path = self._recording.place(FETCH, _shape(arguments), effect, _went_well)
        found = self._recording.find(path)
        if found is not None:
            return found
        return self._recording.live(path, self._recorded(path, arguments, effect))

    async def _unrecorded(self, arguments: Any) -> Settled:
        try:
            return self._recording.fresh(await self._answer(arguments))
        except (CallError, TypeError) as error:
            return refused(error, self._recording.now())

    async def _recorded(self, path: CallPath, arguments: Any, effect: Effect) -> Settled:
        try:
            if effect is Effect.WRITE:
                await self._start(path)
            answer = await self._answer(arguments)
        except (CallError, TypeError) as error:
            return self._recording.refuse(path, FETCH, error)
        return self._recording.settle(path, FETCH, answer)

    async def _start(self, path: CallPath) -> None:
        """Note that something is about to be sent. Raises Interrupted after a crash in it."""
        spec = self._invocation.spec
        again = spec.idempotent or spec.effect is not Effect.WRITE
        await self._invocation.ledger.start(Call(path, FETCH, {}), again=again)

    async def _answer(self, arguments: Any) -> dict[str, Any]:
        access = self._access
        answer = await access.egress.fetch(await self._request(arguments), access.asker)
        clean = access.secrets.text
        return {
            "status": answer.status,
            "url": clean(answer.url),
            "headers": {name: clean(value) for name, value in answer.headers.items()},
            "body": _cleaned(answer.body, access.secrets),
        }

    async def _request(self, arguments: Any) -> Request:
        ms = optional_number(arguments, "timeout_ms", 0, 3_600_000)
        headers = [(str(name), str(value)) for name, value in arguments.get("headers", ())]
        body = arguments.get("body")
        if isinstance(body, dict) and body.get("kind") == "form":
            boundary = self._invocation.ledger.seed(self._invocation.call.path).hex()[:32]
            headers = [each for each in headers if each[0] != "content-type"]
            headers.append(("content-type", f"multipart/form-data; boundary={boundary}"))
        else:
            boundary = ""
        return Request(
            url=text(arguments, "url"),
            method=text(arguments, "method", most=32),
            headers=tuple(headers),
            body=await self._body(body, arguments.get("attachments", ()), boundary),
            redirect=Redirect(arguments.get("redirect", "follow")),
            seconds=None if ms is None else ms / 1000,
        )

    async def _body(self, body: Any, attached: Sequence[bytes], boundary: str) -> Any:
        if body is None:
            return None
        match mapping({"body": body}, "body").get("kind"):
            case "text":
                return text(body, "text") if body.get("text") else ""
            case "bytes":
                return _attachment(body, attached)
            case "form":
                parts = [each async for each in self._parts(body.get("parts", ()), attached)]
                return tuple(_multipart(parts, boundary))
            case found:
                raise TypeError(f"a body is a text, bytes or a form, found {found!r:.80}")

    async def _parts(self, parts: Any, attached: Sequence[bytes]) -> Any:
        for part in parts:
            if "text" in part:
                yield part, part["text"]
            elif "path" in part:
                file = parse_path(text(part, "path"))
                yield (
                    part,
                    await self._invocation.workspace.read(file, most=self._limits.file_bytes),
                )
            else:
                yield part, _attachment(part, attached)


def _shape(arguments: Any) -> dict[str, Any]:
    """Return what tells one request from another; bytes count by what they are."""
    shape = {name: value for name, value in arguments.items() if name != "attachments"}
    attached = arguments.get("attachments", ())
    return shape | {"attachments": [sha256(each).hexdigest() for each in attached]}


def _went_well(settled: CallSettled) -> bool:
    output = settled.envelope.output
    return settled.envelope.ok and isinstance(output, dict) and output.get("status", 0) < FAILED


def _attachment(holder: Any, attached: Sequence[bytes]) -> bytes:
    number = holder.get("attachment")
    if not isinstance(number, int) or not 0 <= number < len(attached):
        raise TypeError("there are no such bytes")
    return attached[number]


def _multipart(parts: Sequence[tuple[Any, Part]], boundary: str) -> Iterator[Part]:
    """Yield a form as it is sent (RFC 7578)."""
    for part, content in parts:
        disposition = f'form-data; name="{_quoted(str(part["name"]))}"'
        head = f"--{boundary}\r\nContent-Disposition: {disposition}"
        if "filename" in part:
            kind = str(part.get("type") or "application/octet-stream")
            head += f'; filename="{_quoted(str(part["filename"]))}"\r\nContent-Type: {_line(kind)}'
        yield f"{head}\r\n\r\n".encode()
        yield content
        yield b"\r\n"
    yield f"--{boundary}--\r\n".encode()


def _quoted(name: str) -> str:
    return name.replace("\r", "%0D").replace("\n", "%0A").replace('"', "%22")


def _line(value: str) -> str:
    return value.replace("\r", "").replace("\n", "")


def _cleaned(body: bytes, secrets: Redactor) -> bytes:
    """Return the body without secrets; one that is no text keeps what it is."""
    return secrets.text(body.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")
