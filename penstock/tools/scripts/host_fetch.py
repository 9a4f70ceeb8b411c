"""`fetch`: requests to the hosts that a manifest and the project allow."""

import asyncio
from hashlib import sha256
from typing import Any

from msgspec import Struct

from penstock.core.call import Call, CallPath, Effect
from penstock.core.call_errors import CallError, Interrupted
from penstock.core.events.events import CallSettled
from penstock.core.state import FilePath
from penstock.resources.egress import Egress, EgressCaller, Request
from penstock.resources.redact import Redactor
from penstock.sandbox.bridge import HostCallResult
from penstock.tools.invocation import Invocation
from penstock.tools.scripts.arguments import items
from penstock.tools.scripts.fetch_arguments import Content, FetchArguments, multipart, read_fetch
from penstock.tools.scripts.host import Answer
from penstock.tools.scripts.recording import Recording, refused

FETCH = "fetch"
CUT = "this request was cut in the middle: it may or may not have happened"
READS = frozenset({"GET", "HEAD", "OPTIONS"})
FAILED = 400
"""A status from here on is asked for again when the call is tried again."""


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


def _shape(arguments: Any) -> dict[str, Any]:
    """Return what tells one request from another; bytes count by what they are."""
    shape = {name: value for name, value in arguments.items() if name != "attachments"}
    attached = items(arguments, "attachments")
    return shape | {"attachments": [sha256(each).hexdigest() for each in attached]}


def _went_well(settled: CallSettled) -> bool:
    output = settled.envelope.output
    return settled.envelope.ok and isinstance(output, dict) and output.get("status", 0) < FAILED
