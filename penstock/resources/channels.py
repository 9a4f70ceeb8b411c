"""Channels of notifications, and the request body for each kind."""

import base64
import re
from enum import StrEnum
from hashlib import md5
from typing import Any, assert_never

from msgspec import Struct

from penstock.core.clock import Moment, to_iso
from penstock.core.scopes import Scope, ScopeKind

SECRETS = Scope(ScopeKind.SHARED, "notifications")
"""The scope in the vault that holds the URLs of channels."""


class ChannelKind(StrEnum):
    """The message format of a channel. The values are those of the settings."""

    WECOM = "wecom"
    WEBHOOK = "webhook"
    SLACK = "slack"


class Channel(Struct, frozen=True, kw_only=True):
    """One channel of the project."""

    name: str
    kind: ChannelKind
    vault_key: str
    """The vault key of its URL, which is a secret: everyone who knows it can write there."""


class ChannelText(Struct, frozen=True, kw_only=True):
    """A text, or one in markdown."""

    text: str
    markdown: str | None = None
    """`markdown` or `markdown_v2`; None for plain text."""
    mentioned: tuple[str, ...] = ()
    mentioned_phones: tuple[str, ...] = ()


class ChannelFile(Struct, frozen=True, kw_only=True):
    """An image or a file."""

    name: str
    media_type: str
    is_image: bool
    link: str
    content: bytes = b""
    """The bytes of an image, for channels that accept no links."""
    upload_id: str = ""
    """The id of an uploaded file, for channels that accept no links."""


Message = ChannelText | ChannelFile

_BOLD = re.compile(r"\*\*(.+?)\*\*|__(.+?)__")
_LINK = re.compile(r"\[([^\[\]\n]*)\]\((https?:[^)\s]{0,2000})\)")
_HEADING = re.compile(r"^#{1,6} +([^\s].*)$", re.MULTILINE)
_ITEM = re.compile(r"^([ \t]*)[-*+] ", re.MULTILINE)


def body_of(channel: Channel, message: Message, at: Moment) -> dict[str, Any]:
    """Return the body of the request to a channel, as JSON."""
    match channel.kind:
        case ChannelKind.WECOM:
            return _for_wecom(message)
        case ChannelKind.SLACK:
            return {"text": _for_slack(message)}
        case ChannelKind.WEBHOOK:
            return {"channel": channel.name, **_plain(message), "sentAt": to_iso(at)}
        case _:
            assert_never(channel.kind)


def max_bytes(channel: Channel, message: ChannelText) -> int | None:
    """Return how long a text may be, in bytes; None if the channel has no limit."""
    match channel.kind:
        case ChannelKind.WECOM:
            return 2048 if message.markdown is None else 4096
        case ChannelKind.SLACK:
            return 40_000
        case ChannelKind.WEBHOOK:
            return None
        case _:
            assert_never(channel.kind)


def _for_wecom(message: Message) -> dict[str, Any]:
    match message:
        case ChannelText(markdown=kind) if kind is not None:
            return {"msgtype": kind, kind: {"content": message.text}}
        case ChannelText():
            text: dict[str, Any] = {"content": message.text}
            if message.mentioned:
                text["mentioned_list"] = list(message.mentioned)
            if message.mentioned_phones:
                text["mentioned_mobile_list"] = list(message.mentioned_phones)
            return {"msgtype": "text", "text": text}
        case ChannelFile(is_image=True):
            digest = md5(message.content, usedforsecurity=False).hexdigest()
            encoded = base64.b64encode(message.content).decode()
            return {"msgtype": "image", "image": {"base64": encoded, "md5": digest}}
        case ChannelFile(upload_id=upload_id):
            return {"msgtype": "file", "file": {"media_id": upload_id}}
        case _:
            assert_never(message)


def _for_slack(message: Message) -> str:
    if isinstance(message, ChannelFile):
        return f"<{message.link}|{_escaped(message.name)}>"
    text = _escaped(message.text)
    if message.markdown is not None:
        text = _ITEM.sub(r"\1• ", _HEADING.sub(_bold, text))
        text = _LINK.sub(r"<\2|\1>", _BOLD.sub(lambda match: f"*{match[1] or match[2]}*", text))
    names = [*message.mentioned, *message.mentioned_phones]
    return " ".join([text, *(f"@{_escaped(each)}" for each in names)])


def _bold(heading: re.Match[str]) -> str:
    """Return a heading without the marks that it may end with."""
    return f"*{heading[1].rstrip(' ').rstrip('#').rstrip(' ') or heading[1]}*"


def _plain(message: Message) -> dict[str, Any]:
    if isinstance(message, ChannelFile):
        media = {"url": message.link, "mimeType": message.media_type, "name": message.name}
        return {"kind": "image" if message.is_image else "file", "media": media}
    if message.markdown is not None:
        return {"kind": message.markdown, "markdown": message.text}
    mentions = [*message.mentioned, *message.mentioned_phones]
    return {"kind": "text", "text": message.text, "mentions": mentions}


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
