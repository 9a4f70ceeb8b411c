"""Media: bytes that a profile keeps for a while under an id, links to, and attaches to answers."""

import base64
import binascii
from functools import cache
from mimetypes import MimeTypes
from typing import Any

from penstock.chat.wire_forms import MAX_ATTACHMENTS
from penstock.core.call import Effect
from penstock.core.call_errors import ToolNotConfigured, quota, tool_failure
from penstock.core.clock import Moment, to_iso
from penstock.core.envelope import Json
from penstock.core.ids import BlobId, MediaId
from penstock.core.stored.changes import MediaChange, WorkspaceChange
from penstock.resources.signed_links import LinkLabel
from penstock.store.blobs import Blobs
from penstock.tools.invocation import Invocation
from penstock.tools.media import sniff
from penstock.tools.python.builtin import NAME, TEXT, URI, builtin, place, whole

MAX_BYTES = 67_108_864
MAX_DECODED = 4_194_304
MAX_ATTACHED = 262_144
"""From this size on, a link is sent instead, in bytes."""
TTL = whole(60, 2_592_000, "How long the id works; without it a week.")
A_WEEK = 604_800
MEDIA_TYPE: Json = {
    "type": "string",
    "maxLength": 127,
    "pattern": "^[A-Za-z0-9][A-Za-z0-9!#$&^_.+-]*/[A-Za-z0-9][A-Za-z0-9!#$&^_.+-]*$",
    "description": "Such as image/png.",
}


@builtin(
    "Write media into the workspace by its id; an existing file is overwritten.",
    {"media_id": TEXT, "output_path": URI},
    effect=Effect.WRITE,
)
async def media_fetch(input: Json, invocation: Invocation) -> Any:
    """Write media as a file."""
    target = place(input, "output_path", invocation)
    kept = await _find(input["media_id"], invocation)
    change = invocation.workspace.of_blob(target, kept.blob_id, kept.size)
    invocation.change = WorkspaceChange(files=(change,))
    return {
        "media_id": kept.media_id,
        "media_type": kept.media_type,
        "output_path": str(target),
        "expires_at": to_iso(kept.expires_at),
    }


@builtin(
    "Keep a file of the workspace as media, and get an id for it: to attach it to an answer, to "
    "link to it, or to send it to a channel.",
    {"input_path": URI, "filename?": NAME, "ttl_seconds?": TTL},
    effect=Effect.WRITE,
)
async def media_push_vfs(input: Json, invocation: Invocation) -> Any:
    """Keep a file as media."""
    source = place(input, "input_path", invocation)
    file = await invocation.workspace.file(source)
    if file.size > MAX_BYTES:
        raise tool_failure(
            "too_large", f"media have at most {MAX_BYTES} bytes, this has {file.size}"
        )
    name = input.get("filename", source.name)
    media_type = _types().guess_type(name, strict=True)[0]
    if media_type is None:
        media_type = sniff(await _blobs(invocation).get(file.blob_id))
    kept = _keep(
        {**input, "filename": name},
        invocation,
        blob_id=file.blob_id,
        size=file.size,
        media_type=media_type,
    )
    return {**_shown(kept), "expires_at": to_iso(kept.expires_at), "input_path": str(source)}


@builtin(
    "Keep bytes given as base64 as media, at most 4 MiB, and get an id for them.",
    {"base64_data": TEXT, "media_type": MEDIA_TYPE, "filename?": NAME, "ttl_seconds?": TTL},
    effect=Effect.WRITE,
)
async def media_push_base64(input: Json, invocation: Invocation) -> Any:
    """Keep bytes as media."""
    content = _decoded(input["base64_data"])
    blob_id = await _blobs(invocation).put(content)
    kept = _keep(
        input,
        invocation,
        blob_id=blob_id,
        size=len(content),
        media_type=input["media_type"].lower(),
    )
    return {**_shown(kept, kept.filename), "expires_at": to_iso(kept.expires_at)}


@builtin(
    "Get a link to media that works for an hour without a key.",
    {"media_id": TEXT},
    effect=Effect.READ,
)
async def get_media_download_url(input: Json, invocation: Invocation) -> Any:
    """Return a signed link."""
    kept = await _find(input["media_id"], invocation)
    return {**_shown(kept, kept.filename), **_link(kept, invocation)}


@builtin(
    "Attach media to the answer. From 262,144 bytes on, send_as_attachment is false and the answer "
    "should give download_url instead.",
    {"media_id": TEXT, "filename?": NAME},
    effect=Effect.WRITE,
)
async def send_media_attachment(input: Json, invocation: Invocation) -> Any:
    """Attach media, or return a link if it is large."""
    kept = await _find(input["media_id"], invocation)
    name = input.get("filename", kept.filename)
    shown = _shown(kept, name)
    if kept.size >= MAX_ATTACHED:
        return {"send_as_attachment": False, **shown, **_link(kept, invocation, name)}
    claimed = invocation.ledger.claims[invocation.spec.tool_id]
    if len((_attached(invocation) | claimed) - {kept.media_id}) >= MAX_ATTACHMENTS:
        raise quota(f"an answer has at most {MAX_ATTACHMENTS} attachments")
    claimed.add(kept.media_id)
    try:
        content = await _blobs(invocation).get(kept.blob_id)
        stored = await invocation.edition.resources.artifacts.keep(
            content, kept.media_type, name=name
        )
    except BaseException:
        claimed.discard(kept.media_id)
        raise
    invocation.files.append(stored)
    return {"send_as_attachment": True, **shown}


async def _find(media_id: str, invocation: Invocation) -> MediaChange:
    """Return the media of an id that the profile of this call owns."""
    media = invocation.edition.resources.media
    if media is None:
        raise ToolNotConfigured("no media are kept here")
    kept = await media.find(media_id, invocation.caller.profile.profile_id)
    if kept is None:
        raise tool_failure("not_found", f"there is no media {media_id!r:.200}, or it has expired")
    return kept


def _keep(
    input: Json, invocation: Invocation, *, blob_id: BlobId, size: int, media_type: str
) -> MediaChange:
    """Return the change that keeps the bytes when the call is recorded."""
    world = invocation.edition.world
    invocation.change = change = MediaChange(
        media_id=MediaId(world.new_id("media")),
        profile_id=invocation.caller.profile.profile_id,
        blob_id=blob_id,
        media_type=media_type,
        size=size,
        filename=input.get("filename"),
        expires_at=Moment(world.clock.now() + 1000 * int(input.get("ttl_seconds", A_WEEK))),
    )
    return change


def _shown(kept: MediaChange, name: str | None = None) -> dict[str, Any]:
    shown = {"media_id": kept.media_id, "media_type": kept.media_type, "size_bytes": kept.size}
    return shown if name is None else {**shown, "filename": name}


def _link(kept: MediaChange, invocation: Invocation, name: str | None = None) -> dict[str, str]:
    """Return a link that expires with the media, if that is sooner."""
    links = invocation.edition.resources.links
    if links is None:
        raise ToolNotConfigured("no links are signed here")
    ends = min(links.end(), kept.expires_at)
    link = links.to(kept.blob_id, ends, LinkLabel(kept.media_type, name or kept.filename or ""))
    return {"download_url": invocation.edition.resources.web_url + link, "expires_at": to_iso(ends)}


def _attached(invocation: Invocation) -> set[str]:
    """Return the ids that are already attached to the answer of this task."""
    settled = invocation.ledger.task.settled.values()
    own = [each.envelope for each in settled if each.tool_id == invocation.spec.tool_id]
    outputs = [each.output for each in own if each.ok and each.output]
    return {each["media_id"] for each in outputs if each["send_as_attachment"]}


def _decoded(text: str) -> bytes:
    try:
        content = base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError) as error:
        raise tool_failure("bad_format", f"base64_data is not base64: {error}") from None
    if len(content) > MAX_DECODED:
        most = MAX_DECODED
        raise tool_failure(
            "too_large", f"at most {most} bytes are accepted as base64, found {len(content)}"
        )
    return content


@cache
def _types() -> MimeTypes:
    """Return media types by file name, the same on every machine."""
    return MimeTypes(())


def _blobs(invocation: Invocation) -> Blobs:
    blobs = invocation.edition.resources.blobs
    if blobs is None:
        raise ToolNotConfigured("no media are kept here")
    return blobs


TOOLS = (
    media_fetch,
    media_push_vfs,
    media_push_base64,
    get_media_download_url,
    send_media_attachment,
)
