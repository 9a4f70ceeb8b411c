"""Blobs by signed link, and complete tool results by id."""

import re
from typing import Annotated
from urllib.parse import quote

from fastapi import Query, Request
from pydantic import BaseModel, Field
from starlette.responses import Response

from penstock.chat.wire_forms import stored_file
from penstock.core.errors import InvalidRequest, NotFound
from penstock.core.ids import ArtifactId, BlobId
from penstock.core.profile import ADMIN, CHAT, READ, Profile
from penstock.resources.signed_links import BARE, LinkLabel
from penstock.server.context import PROFILE, ServerContext, admitted, context_of
from penstock.server.multipart import FORM_TYPE, OVERHEAD, read_form
from penstock.server.openapi import PROBLEM, answers
from penstock.server.parameters import read_body
from penstock.server.problem import Json
from penstock.server.routing import Router

router = Router(prefix="/api", tags=["stored"])

SAFE = {
    "x-content-type-options": "nosniff",
    "content-security-policy": "default-src 'none'; sandbox",
    "cache-control": "private, max-age=3600",
}
_TYPE = re.compile(r"[A-Za-z0-9][A-Za-z0-9!#$&^_.+-]*/[A-Za-z0-9][A-Za-z0-9!#$&^_.+-]*")
_UNKNOWN = "application/octet-stream"
_BEGINNINGS = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)
UPLOAD = {
    "requestBody": {
        "required": True,
        "content": {
            FORM_TYPE: {
                "schema": {
                    "type": "object",
                    "properties": {"file": {"type": "string", "contentMediaType": "*/*"}},
                    "required": ["file"],
                }
            }
        },
    }
}
_BYTES = {"content": {"application/octet-stream": {}}, "description": "The bytes"}


class LinkQuery(BaseModel):
    """The query of a signed link."""

    exp: str = ""
    sig: str = ""
    type: str = ""
    name: str = ""


class PartQuery(BaseModel):
    """Which part of a text, in characters."""

    offset: int = Field(default=0, ge=0, le=2**53)
    limit: int = Field(default=100_000, ge=1, le=100_000)


@router.get(
    "/blobs/{blob_id}", responses={200: _BYTES, "default": PROBLEM}, response_class=Response
)
async def read_blob(
    blob_id: str, request: Request, query: Annotated[LinkQuery, Query()]
) -> Response:
    """Return stored bytes: by a signed link, or with a key that owns them."""
    context = context_of(request)
    profile: Profile | None = request.scope.get(PROFILE)
    label = BARE
    if query.sig or profile is None:
        label = LinkLabel(query.type, query.name)
        context.links.check(blob_id, query.exp, query.sig, label)
    else:
        await _check_owner(context, admitted(request, READ), BlobId(blob_id))
    content = await context.storage.blobs.get(BlobId(blob_id))
    media_type = type_of(content)
    disposition = "attachment" if media_type == _UNKNOWN else "inline"
    if label != BARE:
        media_type = label.media_type if _TYPE.fullmatch(label.media_type) else media_type
        disposition = attachment(label.name)
    headers = {"content-type": media_type, "content-disposition": disposition}
    return Response(content, headers=SAFE | headers)


async def _check_owner(context: ServerContext, profile: Profile, blob_id: BlobId) -> None:
    """Raise NotFound for bytes that nothing of this profile refers to."""
    media = None if profile.session_id is not None else context.storage.media
    if media is not None and await media.find_blob(blob_id, profile.profile_id) is not None:
        return
    is_owned = profile.holds(ADMIN) or await context.kept.lookup.is_owned(blob_id, profile)
    if not is_owned:
        raise NotFound(f"there is no blob {blob_id!r}")


@router.post(
    "/blobs",
    status_code=201,
    responses=answers("Upload", 201),
    openapi_extra=UPLOAD,
    response_class=Json,
)
async def upload_blob(request: Request) -> Response:
    """Store a file for a later message: the field `file` of a form. It waits for a day."""
    context, profile = context_of(request), admitted(request, CHAT)
    most = context.limits.attachment_bytes
    body = await read_body(request, most + OVERHEAD)
    form = read_form(body, request.headers.get("content-type", ""))
    files = [part for part in form if part.name == "file"]
    if len(files) != 1:
        issue = f"must be one file; found {len(files)} fields of this name"
        raise InvalidRequest([{"field": "/file", "issue": issue}])
    (file,) = files
    stored = await context.chat.attachments.upload(
        file.content, profile, mime=file.media_type, name=file.filename
    )
    return Json(stored_file(stored), 201)


@router.get("/artifacts/{artifact_id}", responses=answers("Artifact"), response_class=Json)
async def read_artifact(
    artifact_id: str, request: Request, query: Annotated[PartQuery, Query()]
) -> Response:
    """Return a part of a tool result that was too long for the model."""
    context, profile = context_of(request), admitted(request, READ)
    kept = await context.kept.lookup.find_artifact(ArtifactId(artifact_id), profile)
    if kept is None:
        raise NotFound(f"there is no artifact {artifact_id!r}")
    text = (await context.storage.blobs.get(kept.blob_id)).decode()
    end = query.offset + query.limit
    part = {
        "id": artifact_id,
        "toolName": kept.tool_id,
        "totalCharacters": len(text),
        "offset": query.offset,
        "text": text[query.offset : end],
        "hasMore": end < len(text),
    }
    return Json(part)


def attachment(name: str) -> str:
    """Return the `Content-Disposition` header of a download."""
    if not name:
        return "attachment"
    plain = "".join(each if each.isascii() and each.isprintable() else "_" for each in name)
    plain = plain.replace("\\", "_").replace('"', "_")
    return f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(name, safe='')}"


def type_of(content: bytes) -> str:
    """Return the media type of an image by its first bytes; else application/octet-stream."""
    for beginning, media_type in _BEGINNINGS:
        if content.startswith(beginning):
            return media_type
    is_webp = content[:4] == b"RIFF" and content[8:12] == b"WEBP"
    return "image/webp" if is_webp else _UNKNOWN
