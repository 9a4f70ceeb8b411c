"""A file of the web comes into the workspace, or nothing does."""

from typing import Any

import pytest

from penstock.builtins.download import TOOLS
from penstock.core.call_errors import OutputTooLarge, UpstreamUnavailable
from penstock.core.limits import Limits
from penstock.core.scopes import parse_path
from penstock.resources.egress import Egress, HttpResponse
from tests.kit.scripted_egress import Answers, answered
from tests.kit.workbench import open_desk

URL = "https://x.test/a"
WHERE = {"url": URL, "output_path": "task://a"}


async def test_a_download_overwrites_an_existing_file() -> None:
    egress = Answers(answered(b"first", content_type="text/plain"), answered(b""))
    desk = await open_desk(*TOOLS, egress=egress)
    made = await desk.made("download_url_to_file", **WHERE)
    assert made == {**WHERE, "size_bytes": 5, "content_type": "text/plain"}
    assert await desk.get("task://a") == b"first"
    assert await desk.made("download_url_to_file", **WHERE) == {**WHERE, "size_bytes": 0}
    assert await desk.get("task://a") == b""


async def test_a_download_obeys_the_policy_and_takes_at_most_a_minute() -> None:
    egress = Answers(answered(), answered())
    desk = await open_desk(*TOOLS, egress=egress)
    await desk.made("download_url_to_file", **WHERE)
    await desk.made("download_url_to_file", **WHERE, max_bytes=5)
    requests = [(each.max_bytes, each.max_seconds, who.egress) for each, who in egress.asked]
    assert requests == [(16_777_216, 60, None), (5, 60, None)]


FAILURES: list[tuple[HttpResponse | Exception, str]] = [
    (answered(b"x", 404), "http_status"),
    (answered(b"x", 500), "http_status"),
    (answered(b"", 304), "http_status"),
    (OutputTooLarge("more than 5 bytes"), "too_large"),
    (UpstreamUnavailable("no answer"), "UPSTREAM_UNAVAILABLE"),
]


@pytest.mark.parametrize(("answer", "why"), FAILURES)
async def test_a_failed_download_leaves_no_file(answer: HttpResponse | Exception, why: str) -> None:
    desk = await open_desk(*TOOLS, egress=Answers(answer))
    assert await desk.refusal("download_url_to_file", **WHERE) == why
    assert not await desk.files.exists(parse_path("task://a"))


async def itself(host: str, port: int) -> list[str]:
    """Return an address as DNS gives it back."""
    return [host]


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"url": "http://127.0.0.1:9/"}, "EGRESS_DENIED"),
    ({"url": "https://127.0.0.1/"}, "EGRESS_DENIED"),
    ({"url": "https://[::1]/"}, "EGRESS_DENIED"),
    ({"url": "https://169.254.169.254/latest/meta-data"}, "EGRESS_DENIED"),
    ({"url": "https://10.0.0.1/"}, "EGRESS_DENIED"),
    ({"url": "file:///etc/passwd"}, "invalid"),
    ({"url": "ftp://x.test/"}, "invalid"),
    ({"url": "https://user:secret@x.test/"}, "invalid"),
    ({"url": "x.test"}, "invalid"),
    ({"url": ""}, "invalid"),
    ({"max_bytes": 67_108_865}, "invalid"),
    ({"max_bytes": 0}, "invalid"),
    ({"output_path": "/etc/passwd"}, "invalid"),
    ({"headers": {}}, "invalid"),
]


@pytest.mark.parametrize(("input", "why"), REFUSED)
async def test_invalid_input_is_refused(input: dict[str, Any], why: str) -> None:
    """Private targets are never reached, whatever the project names for its own tools."""
    bounds: dict[str, Any] = {"allow": ["*", "http://*:9"], "allow_private": ["127.0.0.1:9"]}
    egress = Egress(Limits(), resolve=itself, **bounds)
    desk = await open_desk(*TOOLS, egress=egress)
    assert await desk.refusal("download_url_to_file", **{**WHERE, **input}) == why


async def test_without_egress_the_tool_is_not_configured() -> None:
    desk = await open_desk(*TOOLS)
    assert await desk.refusal("download_url_to_file", **WHERE) == "NOT_CONFIGURED"


@pytest.mark.parametrize(
    ("limits", "why"),
    [(Limits(file_bytes=1), "too_large"), (Limits(task_bytes=1), "quota")],
)
async def test_a_file_without_room_is_not_kept(limits: Limits, why: str) -> None:
    desk = await open_desk(*TOOLS, egress=Answers(answered(b"12")), limits=limits)
    assert await desk.refusal("download_url_to_file", **WHERE) == why
