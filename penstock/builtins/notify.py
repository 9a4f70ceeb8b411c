"""`send_notification`: a message to a channel of the project."""

from hashlib import sha256
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from penstock.core.call import Effect
from penstock.core.call_errors import (
    Interrupted,
    ToolFailed,
    ToolNotConfigured,
    UpstreamUnavailable,
    VaultNotFound,
    tool_failure,
)
from penstock.core.diagnostics import did_you_mean
from penstock.core.envelope import Json
from penstock.core.json_values.json_text import compact, parse_json
from penstock.core.json_values.schema import Problem
from penstock.core.stored.changes import MediaChange
from penstock.resources.channels import (
    SECRETS,
    Channel,
    ChannelFile,
    ChannelKind,
    ChannelText,
    Message,
    body_of,
    max_bytes,
)
from penstock.resources.egress import EgressCaller, HttpResponse, Redirect, Request
from penstock.resources.hosts import read_patterns
from penstock.resources.signed_links import LinkLabel
from penstock.tools.failures import invalid
from penstock.tools.invocation import Invocation
from penstock.tools.media import sniff
from penstock.tools.python.builtin import NAME, TEXT, builtin, fields_of

MAX_IMAGE_BYTES = 2 * 1024 * 1024
MAX_FILE_BYTES = 20 * 1024 * 1024
SECONDS = 10.0
PEOPLE: Json = {"type": "array", "items": NAME, "maxItems": 100}
MEDIA = fields_of({"media_id": TEXT})
CONTENT = fields_of({"content": {"type": "string", "minLength": 1}})
WECOM: Json = {
    "oneOf": [
        fields_of(
            {
                "msgtype": {"const": "text"},
                "text": fields_of(
                    {
                        "content": {"type": "string", "minLength": 1},
                        "mentioned_list?": PEOPLE,
                        "mentioned_mobile_list?": PEOPLE,
                    }
                ),
            }
        ),
        *(
            fields_of({"msgtype": {"const": kind}, kind: schema})
            for kind, schema in {
                "markdown": CONTENT,
                "markdown_v2": CONTENT,
                "image": MEDIA,
                "file": MEDIA,
            }.items()
        ),
    ]
}
MESSAGE: Json = {
    "oneOf": [
        fields_of({"kind": {"const": "text"}, "text": {"type": "string", "minLength": 1}}),
        fields_of({"kind": {"const": "wecom"}, "wecom": WECOM}),
    ]
}
_GOOD = range(200, 300)
_AROUND = 4096
"""Bytes of a multipart request around the file."""


@builtin(
    "Send a message to a channel of the project, named by channel_name or channel_id. "
    'message {"kind": "text", "text"} fits every channel; {"kind": "wecom", "wecom": {"msgtype", '
    "…}} takes text, markdown, markdown_v2, image and file.",
    {"channel_name?": NAME, "channel_id?": NAME, "message": MESSAGE},
    effect=Effect.WRITE,
    is_transactional=False,
)
async def send_notification(input: Json, invocation: Invocation) -> Any:
    """Send one message, once."""
    channel = _channel(input, invocation)
    address = await _address(channel, invocation)
    message = await _message(input["message"], channel, address, invocation)
    body = body_of(channel, message, invocation.edition.world.clock.now())
    answer = await _post(address, compact(body).encode(), "application/json", invocation)
    _check(answer, channel)
    return {
        "channel_id": channel.name,
        "channel_name": channel.name,
        "delivered": True,
        "kind": channel.kind.value,
    }


def _channel(input: Json, invocation: Invocation) -> Channel:
    names = [input[each] for each in ("channel_name", "channel_id") if each in input]
    if len(names) != 1:
        problem = Problem("", "name the channel, by channel_name or by channel_id, not both")
        raise invalid(invocation.spec.tool_id, [problem])
    channels = invocation.edition.resources.channels
    channel = next((each for each in channels if each.name == names[0]), None)
    if channel is None:
        hint = did_you_mean(names[0], [each.name for each in channels])
        raise ToolNotConfigured(
            f"there is no channel {names[0]!r}: [notifications.{names[0]}] is not in the "
            f"settings.{hint}"
        )
    return channel


async def _address(channel: Channel, invocation: Invocation) -> str:
    """Return the URL of a channel. It is a secret, so no error contains it."""
    vault = invocation.edition.resources.vault
    key = channel.vault_key
    try:
        if vault is not None:
            return await vault.get(SECRETS, key)
    except VaultNotFound:
        pass
    raise ToolNotConfigured(
        f"the channel {channel.name!r} has no address: penstock vault set {SECRETS} {key}"
    )


async def _message(
    message: Json, channel: Channel, address: str, invocation: Invocation
) -> Message:
    """Return the message, with the bytes or the upload id that its channel needs."""
    wecom = message.get("wecom") or {"msgtype": "text", "text": {"content": message.get("text")}}
    kind = wecom["msgtype"]
    content = wecom[kind]
    if kind in {"image", "file"}:
        kept = await _media(content["media_id"], invocation)
        return await _enclosure(kept, channel, address, invocation, is_image=kind == "image")
    words = ChannelText(
        text=content["content"],
        markdown=None if kind == "text" else kind,
        mentioned=tuple(content.get("mentioned_list", ())),
        mentioned_phones=tuple(content.get("mentioned_mobile_list", ())),
    )
    most, size = max_bytes(channel, words), len(words.text.encode(errors="replace"))
    if most is not None and size > most:
        problem = Problem("/message", f"{channel.kind} takes at most {most} bytes, found {size}")
        raise invalid(invocation.spec.tool_id, [problem])
    return words


async def _media(media_id: str, invocation: Invocation) -> MediaChange:
    media = invocation.edition.resources.media
    profile = invocation.caller.profile.profile_id
    kept = None if media is None else await media.find(media_id, profile)
    if kept is None:
        raise tool_failure("not_found", f"there is no media {media_id!r:.200}, or it has expired")
    return kept


async def _enclosure(
    kept: MediaChange,
    channel: Channel,
    address: str,
    invocation: Invocation,
    *,
    is_image: bool,
) -> ChannelFile:
    resources = invocation.edition.resources
    if resources.blobs is None or resources.links is None:
        raise ToolNotConfigured("no media are kept here")
    name = kept.filename or kept.media_id
    content, upload_id = b"", ""
    if channel.kind is ChannelKind.WECOM:
        room = invocation.edition.world.limits.fetch_request_bytes - _AROUND
        most = min(MAX_IMAGE_BYTES if is_image else MAX_FILE_BYTES, room)
        if kept.size > most:
            raise tool_failure("too_large", f"wecom takes at most {most} bytes, found {kept.size}")
        content = await resources.blobs.get(kept.blob_id)
        if is_image and sniff(content) not in {"image/png", "image/jpeg"}:
            raise tool_failure("bad_format", "wecom takes images that are PNG or JPEG")
        if not is_image:
            upload_id = await _upload(name, content, address, invocation)
    return ChannelFile(
        name=name,
        media_type=kept.media_type,
        is_image=is_image,
        link=resources.web_url
        + resources.links.to(kept.blob_id, label=LinkLabel(kept.media_type, name)),
        content=content,
        upload_id=upload_id,
    )


async def _upload(name: str, content: bytes, address: str, invocation: Invocation) -> str:
    """Upload a file first; returns its id on the other side."""
    url = urlsplit(address)
    place = url.path.rpartition("/")[0] + "/upload_media"
    target = urlunsplit((url.scheme, url.netloc, place, f"{url.query}&type=file", ""))
    quoted = "".join(each if each.isprintable() and each not in '"\\' else "_" for each in name)
    # A file cannot contain its own hash, so no file ends its part early or adds another one.
    boundary = sha256(content).hexdigest()
    head = (
        f'--{boundary}\r\ncontent-disposition: form-data; name="media"; filename="{quoted}"\r\n'
        "content-type: application/octet-stream\r\n\r\n"
    ).encode()
    body = head + content + f"\r\n--{boundary}--\r\n".encode()
    kind = f"multipart/form-data; boundary={boundary}"
    answer = await _post(target, body, kind, invocation)
    upload_id = _said(answer).get("media_id")
    if answer.status not in _GOOD or not isinstance(upload_id, str):
        raise _rejected(answer, "it did not take the file")
    return upload_id


async def _post(address: str, body: bytes, kind: str, invocation: Invocation) -> HttpResponse:
    """Send once. No error that is raised contains the URL."""
    egress = invocation.edition.resources.egress
    if egress is None:
        raise ToolNotConfigured("requests are not possible here: no egress is configured")
    request = Request(
        url=address,
        method="POST",
        headers=(("content-type", kind),),
        body=body,
        redirect=Redirect.MANUAL,
        seconds=SECONDS,
    )
    url = urlsplit(address)
    try:
        patterns = read_patterns([f"{url.scheme}://{url.netloc}"])
        return await egress.fetch(
            request, EgressCaller(tool_id=invocation.spec.tool_id, egress=tuple(patterns))
        )
    except (TypeError, ValueError):
        raise ToolNotConfigured("the address of the channel is not an http or https URL") from None
    except UpstreamUnavailable as error:
        if (error.details or {}).get("sent"):
            raise Interrupted(f"{error}: the message may or may not have arrived") from error
        raise


def _check(answer: HttpResponse, channel: Channel) -> None:
    """Raise ToolFailed if the other side refused the message."""
    if answer.status not in _GOOD:
        raise _rejected(answer, f"it answered with the status {answer.status}")
    if channel.kind is ChannelKind.WECOM and _said(answer).get("errcode") != 0:
        raise _rejected(answer, f"it said {_said(answer).get('errmsg', 'nothing')!r:.200}")


def _rejected(answer: HttpResponse, reason: str) -> ToolFailed:
    details: dict[str, Any] = {"reason": "rejected", "status": answer.status}
    if "errcode" in _said(answer):
        details["errcode"] = _said(answer)["errcode"]
    return ToolFailed(f"the channel did not take the message: {reason}", details=details)


def _said(answer: HttpResponse) -> dict[str, Any]:
    try:
        answered = parse_json(answer.body)
    except ValueError:
        return {}
    return answered if isinstance(answered, dict) else {}


TOOLS = (send_notification,)
