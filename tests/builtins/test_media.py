"""Media: kept, fetched, linked to and attached, by the profile that made them."""

import asyncio
import base64
from typing import Any
from urllib.parse import parse_qsl

import pytest
from msgspec.structs import replace

from penstock.builtins.media import TOOLS
from penstock.core.clock import Moment, to_iso
from penstock.core.ids import ProfileId
from penstock.core.limits import Limits
from penstock.core.profile import Profile
from penstock.core.scopes import parse_path
from penstock.resources.signed_links import LinkLabel, Links
from penstock.testing.clock import START, FakeClock
from tests.kit.workbench import Desk, open_desk, refusal_of

PNG = b"\x89PNG\r\n\x1a\n" + bytes(20)
A_WEEK = Moment(START + 604_800_000)


def encoded(content: bytes) -> str:
    return base64.b64encode(content).decode()


async def pushed(desk: Desk, content: bytes = PNG, **more: Any) -> str:
    given = {"base64_data": encoded(content), "media_type": "image/png", **more}
    return str((await desk.made("media_push_base64", **given))["media_id"])


async def test_bytes_are_kept_and_fetched() -> None:
    desk = await open_desk(*TOOLS)
    made = await desk.made(
        "media_push_base64", base64_data=encoded(PNG), media_type="Image/PNG", filename="a.png"
    )
    media_id = made["media_id"]
    about = {"media_id": media_id, "media_type": "image/png"}
    expires = {"expires_at": to_iso(A_WEEK)}
    assert made == {**about, "size_bytes": 28, "filename": "a.png", **expires}
    where = {"output_path": "session://x/a.png"}
    assert await desk.made("media_fetch", media_id=media_id, **where) == about | where | expires
    assert await desk.get("session://x/a.png") == PNG


@pytest.mark.parametrize(
    ("uri", "content", "media_type"),
    [
        ("task://a.png", b"text", "image/png"),
        ("task://a.pdf", b"", "application/pdf"),
        ("task://a.html", b"", "text/html"),
        ("task://noname", PNG, "image/png"),
        ("task://noname", b"?", "application/octet-stream"),
    ],
)
async def test_a_file_is_kept_its_type_known_by_name_else_by_content(
    uri: str, content: bytes, media_type: str
) -> None:
    desk = await open_desk(*TOOLS)
    await desk.put(uri, content)
    made = await desk.made("media_push_vfs", input_path=uri, ttl_seconds=60)
    assert made == {
        "media_id": made["media_id"],
        "media_type": media_type,
        "size_bytes": len(content),
        "expires_at": to_iso(Moment(START + 60_000)),
        "input_path": uri,
    }


async def test_media_stay_when_their_file_changes() -> None:
    desk = await open_desk(*TOOLS)
    await desk.put("task://a", PNG)
    media_id = (await desk.made("media_push_vfs", input_path="task://a"))["media_id"]
    await desk.put("task://a", b"other")
    await desk.made("media_fetch", media_id=media_id, output_path="task://b")
    assert await desk.get("task://b") == PNG


async def test_a_link_works_for_an_hour_or_as_long_as_the_media() -> None:
    clock = FakeClock()
    desk = await open_desk(*TOOLS, clock=clock)
    for seconds, ttl in ((3600, 604_800), (60, 60)):
        media_id = await pushed(desk, ttl_seconds=ttl, filename="a.png")
        found = await desk.made("get_media_download_url", media_id=media_id)
        path, _, query = found.pop("download_url").partition("?")
        said, blob_id = dict(parse_qsl(query)), path.removeprefix("/api/blobs/")
        label = LinkLabel(said["type"], said["name"])
        Links(bytes(32), clock, 1).check(blob_id, said["exp"], said["sig"], label)
        assert label == LinkLabel("image/png", "a.png")
        assert found == {
            "media_id": media_id,
            "media_type": "image/png",
            "size_bytes": 28,
            "filename": "a.png",
            "expires_at": to_iso(Moment(START + 1000 * seconds)),
        }


@pytest.mark.parametrize(("size", "is_attached"), [(262_143, True), (262_144, False)])
async def test_small_media_are_attached_and_large_ones_linked(size: int, is_attached: bool) -> None:
    desk = await open_desk(*TOOLS)
    media_id = await pushed(desk, bytes(size), filename="a.bin")
    sent = await desk.made("send_media_attachment", media_id=media_id, filename="b.bin")
    assert (sent["send_as_attachment"], sent["filename"]) == (is_attached, "b.bin")
    assert (sent["size_bytes"], "download_url" in sent) == (size, not is_attached)
    files = (await desk.bench.settled())[-1].files
    assert [(each.name, each.size) for each in files] == [("b.bin", size)] * is_attached


async def test_an_answer_has_twenty_attachments() -> None:
    desk = await open_desk(*TOOLS)
    sent = [await pushed(desk, bytes([each])) for each in range(21)]
    for media_id in sent[:20]:
        await desk.made("send_media_attachment", media_id=media_id)
    assert await desk.refusal("send_media_attachment", media_id=sent[20]) == "quota"
    await desk.made("send_media_attachment", media_id=sent[0])


async def test_at_most_twenty_attachments_also_in_parallel() -> None:
    desk = await open_desk(*TOOLS)
    sent = [await pushed(desk, bytes([each])) for each in range(25)]
    calls = (desk.call("send_media_attachment", media_id=each) for each in sent)
    ended = await asyncio.gather(*calls)
    assert [each.ok for each in ended].count(True) == 20


USERS: list[tuple[str, dict[str, Any]]] = [
    ("media_fetch", {"output_path": "task://x"}),
    ("get_media_download_url", {}),
    ("send_media_attachment", {}),
]


async def test_more_than_four_mebibytes_are_not_kept_as_base64() -> None:
    desk = await open_desk(*TOOLS, limits=Limits(input_bytes=2**23))
    given = {"base64_data": encoded(bytes(4_194_305)), "media_type": "a/b"}
    assert await desk.refusal("media_push_base64", **given) == "too_large"


@pytest.mark.parametrize(("tool_id", "more"), USERS)
async def test_an_expired_or_foreign_id_is_not_found(tool_id: str, more: dict[str, Any]) -> None:
    clock = FakeClock()
    desk = await open_desk(*TOOLS, clock=clock)
    media_id = await pushed(desk, ttl_seconds=60)
    bob = replace(desk.bench.model, profile=Profile(profile_id=ProfileId("bob")))
    asked = {"media_id": media_id, **more}
    assert refusal_of(await desk.bench.call(tool_id, asked, caller=bob)) == "not_found"
    assert await desk.refusal(tool_id, **{**asked, "media_id": "media_none"}) == "not_found"
    await desk.made(tool_id, **asked)
    clock.advance(60)
    assert await desk.refusal(tool_id, **asked) == "not_found"


REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("media_fetch", {"media_id": "m", "output_path": "x"}, "invalid"),
    ("media_push_vfs", {"input_path": "task://none"}, "not_found"),
    ("media_push_vfs", {"input_path": "task://"}, "is_directory"),
    ("media_push_vfs", {"input_path": "task://a", "ttl_seconds": 59}, "invalid"),
    ("media_push_vfs", {"input_path": "task://a", "ttl_seconds": 2_592_001}, "invalid"),
    ("media_push_vfs", {"input_path": "task://a", "filename": ""}, "invalid"),
    ("media_push_base64", {"base64_data": "%%%", "media_type": "a/b"}, "bad_format"),
    ("media_push_base64", {"base64_data": "YQ", "media_type": "a/b"}, "bad_format"),
    ("media_push_base64", {"base64_data": "é", "media_type": "a/b"}, "bad_format"),
    ("media_push_base64", {"base64_data": "data:,x", "media_type": "a/b"}, "bad_format"),
    ("media_push_base64", {"base64_data": "YQ==", "media_type": "png"}, "invalid"),
    ("media_push_base64", {"base64_data": "YQ==", "media_type": "a/b\r\nx: y"}, "invalid"),
    ("media_push_base64", {"base64_data": "YQ=="}, "invalid"),
]


@pytest.mark.parametrize(("tool_id", "input", "why"), REFUSED)
async def test_an_invalid_call_is_refused(tool_id: str, input: dict[str, Any], why: str) -> None:
    desk = await open_desk(*TOOLS)
    await desk.put("task://a", b"a")
    assert await desk.refusal(tool_id, **input) == why
    assert not await desk.files.exists(parse_path("task://x"))


async def test_base64_may_contain_line_breaks() -> None:
    desk = await open_desk(*TOOLS)
    made = await desk.made("media_push_base64", base64_data="YW\nJj\n", media_type="text/plain")
    assert made["size_bytes"] == 3
