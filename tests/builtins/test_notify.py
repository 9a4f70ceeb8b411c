"""Messages to channels: sent once, in the channel's own language; its address stays secret."""

import json
from base64 import b64encode
from typing import Any

import pytest

from penstock.builtins import media
from penstock.builtins.notify import TOOLS
from penstock.core.call_errors import EgressDenied, UpstreamUnavailable
from penstock.core.events.events import CallStarted
from penstock.resources.channels import SECRETS, Channel, ChannelKind
from penstock.resources.egress import HttpResponse, Redirect, Request
from penstock.resources.hosts import read_patterns
from penstock.testing.clock import FakeClock
from penstock.testing.resources import MemoryVault
from tests.kit.scripted_egress import Answers, answered
from tests.kit.workbench import Desk, open_desk

HOOK = "https://hooks.test/cgi-bin/webhook/send?key=s3cret"
TAKEN = answered(b'{"errcode":0,"errmsg":"ok"}')
HI = {"kind": "text", "text": "Hi"}
CHANNELS = (
    *(Channel(name=each.value, kind=each, vault_key="hook") for each in ChannelKind),
    Channel(name="unset", kind=ChannelKind.SLACK, vault_key="none"),
    Channel(name="wrong", kind=ChannelKind.SLACK, vault_key="wrong"),
)
PNG = "iVBORw0KGgoAAAAA"


async def desk_with(*answers: HttpResponse | Exception) -> tuple[Desk, Answers]:
    vault, egress = MemoryVault(FakeClock()), Answers(*answers)
    await vault.set(SECRETS, "hook", HOOK)
    await vault.set(SECRETS, "wrong", "s3cret is no address")
    reached = {"vault": vault, "egress": egress, "channels": CHANNELS, "web_url": "https://me.test"}
    return await open_desk(*TOOLS, *media.TOOLS, **reached), egress


def bodies(egress: Answers) -> list[Any]:
    return [json.loads(sent(request)) for request, _ in egress.asked]


def sent(request: Request) -> bytes:
    assert isinstance(request.body, bytes)
    return request.body


@pytest.mark.parametrize("naming", ["channel_name", "channel_id"])
async def test_a_text_fits_every_channel(naming: str) -> None:
    desk, egress = await desk_with(TAKEN, answered(b"ok"), answered(b"", 204))
    for kind in ("wecom", "slack", "webhook"):
        made = await desk.made("send_notification", **{naming: kind}, message=HI)
        assert made == {
            "channel_id": kind,
            "channel_name": kind,
            "delivered": True,
            "kind": kind,
        }
    assert [each.get("text") for each in bodies(egress)] == [{"content": "Hi"}, "Hi", "Hi"]
    request, asker = egress.asked[0]
    assert (request.url, request.method, request.seconds) == (HOOK, "POST", 10)
    assert request.redirect is Redirect.MANUAL
    assert asker.egress == read_patterns(["https://hooks.test"])


async def test_send_notification_is_a_write() -> None:
    desk, _ = await desk_with(TAKEN)
    await desk.made("send_notification", channel_name="wecom", message=HI)
    assert any(isinstance(each, CallStarted) for each in await desk.bench.events())


async def test_a_file_is_handed_over_first() -> None:
    desk, egress = await desk_with(answered(b'{"errcode":0,"media_id":"up1"}'), TAKEN)
    media_id = await kept(desk, "application/pdf", 'a".pdf')
    message = {"kind": "wecom", "wecom": {"msgtype": "file", "file": {"media_id": media_id}}}
    await desk.made("send_notification", channel_name="wecom", message=message)
    (upload, _), (message_sent, _) = egress.asked
    assert upload.url == "https://hooks.test/cgi-bin/webhook/upload_media?key=s3cret&type=file"
    assert b'filename="a_.pdf"' in sent(upload)
    assert json.loads(sent(message_sent))["file"] == {"media_id": "up1"}


@pytest.mark.parametrize("content", [b"", b"--", b"\r\n--penstock--\r\n", b"\r\n--\r\n" * 99])
async def test_no_file_ends_its_part_of_the_upload(content: bytes) -> None:
    """RFC 2046 section 5.1.1: the boundary does not occur in the parts."""
    desk, egress = await desk_with(answered(b'{"errcode":0,"media_id":"up1"}'), TAKEN)
    media_id = await kept(desk, "application/pdf", "a.pdf", content)
    message = {"kind": "wecom", "wecom": {"msgtype": "file", "file": {"media_id": media_id}}}
    await desk.made("send_notification", channel_name="wecom", message=message)
    upload = egress.asked[0][0]
    (kind,) = [value for name, value in upload.headers if name == "content-type"]
    before, part, after = sent(upload).split(b"--" + kind.partition("boundary=")[2].encode())
    assert (before, after) == (b"", b"--\r\n")
    assert part.partition(b"\r\n\r\n")[2] == content + b"\r\n"


async def test_media_go_to_others_as_a_link() -> None:
    desk, egress = await desk_with(answered(b"ok"))
    media_id = await kept(desk, "image/png", "a.png")
    message = {"kind": "wecom", "wecom": {"msgtype": "image", "image": {"media_id": media_id}}}
    await desk.made("send_notification", channel_name="webhook", message=message)
    linked = bodies(egress)[0]["media"]
    assert linked["url"].startswith("https://me.test/api/blobs/")
    assert linked["name"] == "a.png"


async def kept(desk: Desk, media_type: str, name: str, content: bytes | None = None) -> str:
    data = PNG if content is None else b64encode(content).decode()
    pushed = {"base64_data": data, "media_type": media_type, "filename": name}
    return str((await desk.made("media_push_base64", **pushed))["media_id"])


def wecom(msgtype: str, **body: Any) -> dict[str, Any]:
    return {"kind": "wecom", "wecom": {"msgtype": msgtype, msgtype: body}}


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({}, "invalid"),
    ({"channel_name": "wecom", "channel_id": "wecom"}, "invalid"),
    ({"channel_name": "wecon"}, "NOT_CONFIGURED"),
    ({"channel_name": "unset"}, "NOT_CONFIGURED"),
    ({"channel_name": "wrong"}, "NOT_CONFIGURED"),
    ({"channel_name": "wecom", "message": {"kind": "text"}}, "invalid"),
    ({"channel_name": "wecom", "message": {"kind": "mail", "text": "Hi"}}, "invalid"),
    ({"channel_name": "wecom", "message": {"kind": "text", "text": ""}}, "invalid"),
    ({"channel_name": "wecom", "message": {"kind": "text", "text": "x" * 2049}}, "invalid"),
    ({"channel_name": "wecom", "message": wecom("markdown", content="é" * 2049)}, "invalid"),
    ({"channel_name": "slack", "message": wecom("text", content="x" * 40_001)}, "invalid"),
    ({"channel_name": "wecom", "message": wecom("news", articles=[])}, "invalid"),
    ({"channel_name": "wecom", "message": wecom("image", media_id="none")}, "not_found"),
]


@pytest.mark.parametrize(("input", "why"), REFUSED)
async def test_an_invalid_message_is_not_sent(input: dict[str, Any], why: str) -> None:
    desk, egress = await desk_with()
    envelope = await desk.call("send_notification", **{"message": HI, **input})
    found = await desk.refusal("send_notification", **{"message": HI, **input})
    assert found == why
    assert "s3cret" not in str(envelope.error)
    assert egress.asked == []


FAILURES: list[tuple[str, HttpResponse | Exception, str]] = [
    ("wecom", answered(b'{"errcode":93000,"errmsg":"invalid webhook"}'), "rejected"),
    ("wecom", answered(b"not json"), "rejected"),
    ("slack", answered(b"no_service", 404), "rejected"),
    ("slack", answered(b"", 302, location="https://evil.test/"), "rejected"),
    ("slack", UpstreamUnavailable("no answer"), "UPSTREAM_UNAVAILABLE"),
    ("slack", UpstreamUnavailable("cut", details={"sent": True}), "INTERRUPTED"),
    ("slack", EgressDenied("no"), "EGRESS_DENIED"),
]


@pytest.mark.parametrize(("channel", "answer", "why"), FAILURES)
async def test_a_failed_delivery_is_reported(
    channel: str, answer: HttpResponse | Exception, why: str
) -> None:
    desk, egress = await desk_with(answer)
    envelope = await desk.call("send_notification", channel_name=channel, message=HI)
    assert envelope.error is not None
    details = envelope.error.details or {}
    assert details.get("reason", envelope.error.code) == why
    assert "s3cret" not in str(envelope.error)
    assert len(egress.asked) == 1


async def test_a_rejection_includes_the_answer_of_the_service() -> None:
    desk, _ = await desk_with(answered(b'{"errcode":93000,"errmsg":"invalid webhook"}'))
    envelope = await desk.call("send_notification", channel_name="wecom", message=HI)
    assert envelope.error is not None
    assert envelope.error.details == {"reason": "rejected", "status": 200, "errcode": 93000}
    assert envelope.error.message == (
        "the channel did not take the message: it said 'invalid webhook'"
    )
