"""Accepts the files of a message: loads them, checks them all, and stores their bytes.

Guarantees: if one file is refused, none is stored, and InvalidRequest names every refused one. A
file of the web is fetched under the project's egress policy, from public addresses only: the
address may come from a stranger. Bytes in the store are accepted only for the profile that uploaded
them, or that has a conversation with them; for all others they do not exist.

Proof: tests/agents/attachments/test_keeper.py.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from urllib.parse import unquote, urlsplit

from msgspec import Struct

from penstock.agents.attachments.content import Attachment
from penstock.agents.attachments.kinds import FileFacts, FileKind, inspect, kind_of
from penstock.core.call_errors import CallError
from penstock.core.clock import Moment
from penstock.core.errors import InvalidRequest, NotFound, TooLarge
from penstock.core.ids import BlobId, MediaId
from penstock.core.limits import Limits, World
from penstock.core.messages import StoredFile
from penstock.core.profile import Profile
from penstock.core.stored.changes import MediaChange
from penstock.core.text import cut, one_line, size_text
from penstock.resources.egress import Egress, EgressCaller, Request
from penstock.resources.workspace import Media
from penstock.store.blobs import Blobs
from penstock.store.references import UPLOAD

UPLOAD_SECONDS = 24 * 3600
"""How long uploaded bytes wait for a message that names them."""
FETCH_SECONDS = 60.0
MAX_PROBLEMS = 8
"""Refused files that one error names."""
NAME_CHARS = 120
"""The longest name of a file; a longer one is cut."""
SEPARATOR = "\n\n"
"""Between the texts of a message."""

IsOwned = Callable[[BlobId, Profile], Awaitable[bool]]
"""Whether a conversation of a profile refers to bytes."""
_UNSAFE = re.compile(r"[\x00-\x1f\x7f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
_OK = 200


class KeptContent(Struct, frozen=True):
    """The text of a message, and references to its files."""

    text: str
    files: tuple[StoredFile, ...] = ()


class LoadedFile(Struct, frozen=True):
    """The bytes of a file that was accepted."""

    content: bytes
    facts: FileFacts
    name: str | None
    at: int = 0

    def stored(self, blob_id: BlobId) -> StoredFile:
        """Return the reference to the file."""
        facts = self.facts
        return StoredFile(
            blob_id=blob_id,
            mime_type=facts.mime_type,
            size=len(self.content),
            is_image=facts.kind is FileKind.IMAGE,
            width=facts.width,
            height=facts.height,
            name=self.name,
            tokens=facts.tokens,
            at=self.at,
        )


class AttachmentKeeper:
    """Stores the files of messages as blobs."""

    def __init__(
        self,
        blobs: Blobs,
        world: World,
        *,
        egress: Egress | None = None,
        media: Media | None = None,
        is_owned: IsOwned | None = None,
    ) -> None:
        self._blobs = blobs
        self._world = world
        self._egress = egress
        self._media = media
        self._is_owned = is_owned

    async def keep(
        self, content: str | Sequence[str | Attachment], profile: Profile
    ) -> KeptContent:
        """Store the files of a content. Raises InvalidRequest."""
        if isinstance(content, str):
            return KeptContent(content)
        text, files = _arranged(content)
        return KeptContent(text, await self.keep_files(files, profile, field="/content"))

    async def keep_files(
        self, files: Sequence["PlacedFile"], profile: Profile, *, field: str = "/attachments"
    ) -> tuple[StoredFile, ...]:
        """Store files, all or none. `field` is where the sender named them.

        Raises InvalidRequest.
        """
        limits = self._world.limits
        if len(files) > limits.attachments:
            issue = f"must have at most {limits.attachments} files, has {len(files)}"
            raise InvalidRequest([{"field": field, "issue": issue}])
        loaded: list[LoadedFile] = []
        problems: list[dict[str, str]] = []
        left = limits.message_attachment_bytes
        until = self._world.clock.monotonic() + FETCH_SECONDS
        for file in files:
            try:
                loaded.append(await self._load(file, profile, until))
            except ValueError as error:
                problems.append({"field": f"{field}/{file.number}", "issue": str(error)})
            else:
                left -= len(loaded[-1].content)
            # Stops here, so that 500 files of 20 MB are never in memory together.
            if left < 0:
                most = size_text(limits.message_attachment_bytes)
                issue = f"must have at most {most} in all its files"
                problems.append({"field": field, "issue": issue})
            # An unknown blob costs a search of all events of the profile, so not all are searched.
            if left < 0 or len(problems) == MAX_PROBLEMS:
                break
        if problems:
            raise InvalidRequest(problems)
        # After all checks: a refused message leaves nothing behind.
        return tuple([each.stored(await self._blobs.put(each.content)) for each in loaded])

    async def upload(
        self, content: bytes, profile: Profile, *, mime: str | None, name: str | None
    ) -> StoredFile:
        """Store bytes for a later message of the profile. Raises InvalidRequest and TooLarge."""
        most = self._world.limits.attachment_bytes
        if len(content) > most:
            raise TooLarge(f"a file has at most {most} bytes, this has {len(content)}")
        if self._media is None:
            raise NotFound("no uploads are kept here; send the bytes with the message")
        try:
            loaded = await self._checked(Attachment(mime=mime, name=name), content)
        except ValueError as error:
            raise InvalidRequest([{"field": "/file", "issue": str(error)}]) from None
        stored = loaded.stored(await self._blobs.put(content))
        await self._media.keep(
            MediaChange(
                media_id=MediaId(self._world.new_id(UPLOAD)),
                profile_id=profile.profile_id,
                blob_id=stored.blob_id,
                media_type=stored.mime_type,
                size=stored.size,
                filename=stored.name,
                expires_at=Moment(self._world.clock.now() + 1000 * UPLOAD_SECONDS),
            )
        )
        return stored

    async def _load(self, file: "PlacedFile", profile: Profile, until: float) -> LoadedFile:
        """Return the bytes of a file. Raises ValueError with the reason that refuses it.

        Nothing is fetched after `until`, by the monotonic clock.
        """
        attachment = file.attachment
        if attachment.blob_id is not None:
            attachment, content = await self._uploaded(attachment, profile)
        elif attachment.url is not None:
            attachment, content = await self._fetched(attachment, attachment.url, until)
        elif attachment.path is not None:
            content = await asyncio.to_thread(_read, attachment.path, self._limits.attachment_bytes)
        else:
            content = attachment.data or b""
        return await self._checked(attachment, content, at=file.at)

    @property
    def _limits(self) -> Limits:
        return self._world.limits

    async def _checked(self, attachment: Attachment, content: bytes, *, at: int = 0) -> LoadedFile:
        most = self._limits.attachment_bytes
        if len(content) > most:
            raise ValueError(f"has {len(content)} bytes; at most {most} are accepted")
        name = clean_name(attachment.name)
        facts = await asyncio.to_thread(inspect, content, claimed=attachment.mime, name=name)
        if facts.kind not in attachment.kinds:
            wanted = f"{type(attachment).__name__} ({' or '.join(sorted(attachment.kinds))})"
            raise ValueError(f"is sent as {wanted}, but its bytes are {facts.mime_type}")
        return LoadedFile(content, facts, name, at)

    async def _uploaded(self, attachment: Attachment, profile: Profile) -> tuple[Attachment, bytes]:
        blob_id = attachment.blob_id or BlobId("")
        kept = await self._media.find_blob(blob_id, profile.profile_id) if self._media else None
        is_owned = kept is not None or (
            self._is_owned is not None and await self._is_owned(blob_id, profile)
        )
        if not is_owned or not await self._blobs.exists(blob_id):
            raise ValueError("does not exist, or has expired: upload it with POST /api/blobs")
        name = attachment.name or (kept.filename if kept else None)
        mime = attachment.mime or (kept.media_type if kept else None)
        return Attachment(mime=mime, name=name), await self._blobs.get(blob_id)

    async def _fetched(
        self, attachment: Attachment, url: str, until: float
    ) -> tuple[Attachment, bytes]:
        if self._egress is None:
            raise ValueError("cannot be fetched: this runtime reaches no other server")
        if (seconds := until - self._world.clock.monotonic()) <= 0:
            most = f"all files of a message together take at most {FETCH_SECONDS:g} s"
            raise ValueError(f"cannot be fetched: {most}")
        request = Request(url=url, max_bytes=self._limits.attachment_bytes, max_seconds=seconds)
        # Without hosts of its own, so no private address is reached, even one that the project
        # allows to some tool: the address comes from the sender of a message.
        caller = EgressCaller(tool_id="attachments", egress=None)
        try:
            answer = await self._egress.fetch(request, caller)
        except (CallError, TypeError) as error:
            raise ValueError(f"cannot be fetched: {error}") from None
        if answer.status != _OK:
            raise ValueError(f"cannot be fetched: the server answered {answer.status}")
        claimed = answer.headers.get("content-type", "")
        made = type(attachment)(
            mime=attachment.mime or (claimed if kind_of(claimed) else None),
            name=attachment.name or unquote(urlsplit(url).path.rpartition("/")[2]),
        )
        return made, answer.body


class PlacedFile(Struct, frozen=True):
    """A file of a message: its number in the list that the sender wrote, and its place."""

    attachment: Attachment
    number: int
    at: int = 0
    """How many characters of the text come before it."""


def _arranged(content: object) -> tuple[str, list[PlacedFile]]:
    """Return the text, and the files with their places.

    Files stand before a text that is in one piece, as providers advise; between pieces of text they
    keep their places.
    """
    text, files, pieces, was_text = "", list[PlacedFile](), 0, False
    if not isinstance(content, Sequence) or isinstance(content, bytes):
        raise _no_content("/content", content)
    for number, piece in enumerate(content):
        match piece:
            case str():
                text += (SEPARATOR if text else "") + piece
                pieces += not was_text
            case Attachment():
                files.append(PlacedFile(piece, number, len(text)))
            case _:
                raise _no_content(f"/content/{number}", piece)
        was_text = isinstance(piece, str)
    if pieces <= 1:
        files = [PlacedFile(each.attachment, each.number) for each in files]
    return text, files


def _no_content(field: str, found: object) -> InvalidRequest:
    wanted = "a text, Image, Document or Audio; write Image(data) for bytes"
    if field == "/content":
        wanted = "a text, or a list of texts, Image, Document and Audio"
    return InvalidRequest(
        [{"field": field, "issue": f"is {type(found).__name__}; wanted {wanted}"}]
    )


def clean_name(name: str | None) -> str | None:
    """Return the name of a file as readers see it: one line, without folders."""
    last = re.split(r"[/\\]", name or "")[-1]
    return cut(one_line(_UNSAFE.sub(" ", last)), NAME_CHARS) or None


def _read(path: Path, most: int) -> bytes:
    """Return a file, at most one byte more than is accepted."""
    try:
        with path.open("rb") as file:
            return file.read(most + 1)
    except OSError as error:
        raise ValueError(f"cannot be read: {error.strerror or error}") from None
