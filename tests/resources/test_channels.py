"""The request for each kind of channel."""

from typing import Any

import pytest

from penstock.resources.channels import (
    Channel,
    ChannelFile,
    ChannelKind,
    ChannelText,
    Message,
    body_of,
    max_bytes,
)
from penstock.testing.clock import START

AT = {"channel": "ops", "sentAt": "2026-11-21T09:00:00.000Z"}
HELLO = ChannelText(text="a < b & c > d", mentioned=("ann", "@all"), mentioned_phones=("123",))
MARKED = ChannelText(
    text="# Top\n**bold** [x](https://x.test/?a=1&b) <b>\n- one", markdown="markdown"
)
IMAGE = ChannelFile(
    name="a.png", media_type="image/png", is_image=True, link="/api/blobs/x", content=b"png"
)
FILE = ChannelFile(
    name="<a>.pdf", media_type="application/pdf", is_image=False, link="/x", upload_id="up1"
)
BODIES: list[tuple[ChannelKind, Message, dict[str, Any]]] = [
    (
        ChannelKind.WECOM,
        HELLO,
        {
            "msgtype": "text",
            "text": {
                "content": "a < b & c > d",
                "mentioned_list": ["ann", "@all"],
                "mentioned_mobile_list": ["123"],
            },
        },
    ),
    (ChannelKind.WECOM, ChannelText(text="Hi"), {"msgtype": "text", "text": {"content": "Hi"}}),
    (
        ChannelKind.WECOM,
        ChannelText(text="*Hi*", markdown="markdown_v2"),
        {"msgtype": "markdown_v2", "markdown_v2": {"content": "*Hi*"}},
    ),
    (
        ChannelKind.WECOM,
        IMAGE,
        {
            "msgtype": "image",
            "image": {"base64": "cG5n", "md5": "bff139fa05ac583f685a523ab3d110a0"},
        },
    ),
    (ChannelKind.WECOM, FILE, {"msgtype": "file", "file": {"media_id": "up1"}}),
    (ChannelKind.SLACK, HELLO, {"text": "a &lt; b &amp; c &gt; d @ann @@all @123"}),
    (
        ChannelKind.SLACK,
        MARKED,
        {"text": "*Top*\n*bold* <https://x.test/?a=1&amp;b|x> &lt;b&gt;\n• one"},
    ),
    (ChannelKind.SLACK, FILE, {"text": "</x|&lt;a&gt;.pdf>"}),
    (
        ChannelKind.WEBHOOK,
        HELLO,
        {**AT, "kind": "text", "text": "a < b & c > d", "mentions": ["ann", "@all", "123"]},
    ),
    (ChannelKind.WEBHOOK, MARKED, {**AT, "kind": "markdown", "markdown": MARKED.text}),
    (
        ChannelKind.WEBHOOK,
        IMAGE,
        {
            **AT,
            "kind": "image",
            "media": {"url": "/api/blobs/x", "mimeType": "image/png", "name": "a.png"},
        },
    ),
]


@pytest.mark.parametrize(("kind", "message", "body"), BODIES)
def test_a_body(kind: ChannelKind, message: Message, body: dict[str, Any]) -> None:
    assert body_of(Channel(name="ops", kind=kind, vault_key="k"), message, START) == body


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("# Top ##", "*Top*"),
        ("# a" + " " * 39_000 + "b", "*a" + " " * 39_000 + "b*"),
        ("[" * 39_000, "[" * 39_000),
        ("\n" * 39_000 + "- a", "\n" * 39_000 + "• a"),
        ("[a](https:" * 3900, "[a](https:" * 3900),
    ],
    ids=["heading", "spaces", "brackets", "lines", "links"],
)
def test_hostile_markdown_takes_bounded_time(text: str, shown: str) -> None:
    slack = Channel(name="ops", kind=ChannelKind.SLACK, vault_key="k")
    message = ChannelText(text=text, markdown="markdown")
    assert body_of(slack, message, START) == {"text": shown}


@pytest.mark.parametrize(
    ("kind", "words", "most"),
    [
        (ChannelKind.WECOM, HELLO, 2048),
        (ChannelKind.WECOM, MARKED, 4096),
        (ChannelKind.SLACK, HELLO, 40_000),
        (ChannelKind.WEBHOOK, HELLO, None),
    ],
)
def test_how_long_a_text_may_be(kind: ChannelKind, words: ChannelText, most: int | None) -> None:
    assert max_bytes(Channel(name="ops", kind=kind, vault_key="k"), words) == most
