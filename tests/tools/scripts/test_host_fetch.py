"""Requests of scripts: sent once, recorded without secrets, cut by a crash."""

import asyncio
import re
from typing import Any

import pytest

from penstock.core.call import Effect
from penstock.core.limits import Limits
from penstock.core.state import parse_path
from penstock.resources.egress import Egress
from penstock.resources.hosts import read_patterns
from penstock.testing.clock import settle
from penstock.tools.scripts.bindings import Bindings
from tests.kit.hosts import Asking, asking
from tests.kit.origin import answer, origin, says
from tests.kit.ways import Way, way

SAYS = says(answer(b"found \xff s3cr3t-value", "200 OK", "x-a: s3cr3t-value"))


async def asking_at(found: Way, **more: Any) -> Asking:
    """Return a host whose script may reach the server."""
    bindings = Bindings(egress=read_patterns([f"http://api.test:{found.port}"]))
    return await asking(bindings=bindings, egress=found.egress, **more)


def request(port: int, **more: Any) -> dict[str, Any]:
    return {"url": f"http://api.test:{port}/", "method": "GET", "redirect": "follow"} | more


async def test_bytes_come_back_as_they_were_in_every_entry() -> None:
    async with origin(SAYS) as server:
        host = await asking_at(way(server.port, Limits()))
        for _ in range(2):
            found = await host.value("fetch", **request(server.port))
            assert (found["status"], found["body"]) == (200, b"found \xff s3cr3t-value")
            host.begin()
    assert len(server.heard) == 1


async def test_an_answer_is_recorded_without_secrets() -> None:
    async with origin(SAYS) as server:
        host = await asking_at(way(server.port, Limits()))
        host.invocation.caller.secrets.add("token", "s3cr3t-value")
        found = await host.value("fetch", **request(server.port))
    assert found["body"] == b"found \xff [secret:token]"
    assert found["headers"]["x-a"] == "[secret:token]"
    assert "s3cr3t-value" not in repr(await host.bench.events())


@pytest.mark.parametrize(
    ("effect", "idempotent", "again"),
    [
        (Effect.WRITE, False, "INTERRUPTED"),
        (Effect.WRITE, True, None),
        (Effect.READ, False, None),
        (Effect.NONE, False, None),
    ],
)
async def test_a_write_that_was_cut(effect: Effect, idempotent: bool, again: str | None) -> None:
    async with origin(SAYS) as server:
        host = await asking_at(way(server.port, Limits()), effect=effect, idempotent=idempotent)
        asked = request(server.port, method="POST")
        await _cut(host, asked)
        host.begin()
        settled = await host.ask("fetch", asked)
    code = settled.refusal.detail.code if settled.refusal else None
    assert code == again


async def _cut(host: Asking, asked: dict[str, Any]) -> None:
    """Send a request until it is noted on disk, and no further."""
    sending = asyncio.ensure_future(host.ask("fetch", asked))
    while not host.bench.ledger.task.entered:
        await settle(rounds=1)
    sending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await sending


async def test_a_file_of_the_workspace_goes_with_a_form() -> None:
    async with origin(SAYS) as server:
        host = await asking_at(way(server.port, Limits()))
        workspace = host.invocation.workspace
        await workspace.make(await workspace.write(parse_path("task://a.txt"), b"of the file"))
        part = {"name": "f", "filename": "a.txt", "type": "text/plain", "path": "task://a.txt"}
        body = {"kind": "form", "parts": [part]}
        headers = [["Content-Type", "text/plain"], ["x-more", "kept"]]
        more = {"method": "POST", "body": body, "headers": headers}
        await host.value("fetch", **request(server.port) | more)
    assert "of the file" in server.heard[0]
    boundary = re.search(r"multipart/form-data; boundary=([0-9a-f]{32})\r\n", server.heard[0])
    assert boundary
    assert server.heard[0].count(boundary[1]) == 3
    assert "text/plain" not in server.heard[0].partition("\r\n\r\n")[0]
    assert "x-more: kept" in server.heard[0]
    assert 'filename="a.txt"' in server.heard[0]


class Busy:
    """A DNS that knows nobody, and how many asked it at once."""

    def __init__(self) -> None:
        self.now = self.most = 0

    async def __call__(self, host: str, port: int) -> list[str]:
        self.now += 1
        self.most = max(self.most, self.now)
        await settle(rounds=3)
        self.now -= 1
        return []


async def test_further_requests_wait_their_turn() -> None:
    """A sandbox that breaks any limit takes nothing else with it: connections are of all."""
    dns = Busy()
    bindings = Bindings(egress=read_patterns(["api.test"]))
    host = await asking(bindings=bindings, egress=Egress(Limits(), resolve=dns))
    asked = [
        request(1, url=f"https://api.test/{number}", record=number % 2 == 0) for number in range(70)
    ]
    found = await asyncio.gather(*(host.ask("fetch", each) for each in asked))
    codes = {each.refusal.detail.code for each in found if each.refusal}
    assert (dns.most, codes) == (64, {"UPSTREAM_UNAVAILABLE"})


@pytest.mark.parametrize(
    ("url", "code"),
    [("http://b.test/", "EGRESS_DENIED"), ("nonsense", "TypeError"), ("file:///a", "TypeError")],
)
async def test_refusals_are_recorded_too(url: str, code: str) -> None:
    host = await asking_at(way(1, Limits()))
    for _ in range(2):
        assert await host.refusal("fetch", request(1) | {"url": url}) == code
        host.begin()
