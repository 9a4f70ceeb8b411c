"""Pages without JavaScript: sign-in and transcripts."""

import asyncio
from html import unescape
from typing import Any

import pytest
from starlette.requests import Request

from penstock.core.profile import LOCAL_PROFILE
from penstock.models.scripted import ScriptedModel, call, say
from penstock.server.plain_pages import HEADERS, PAGE_SIZE, button_to, element, html_page, link
from penstock.testing.clock import FakeClock
from tests.kit.server import CHAT, HERE, InMemoryServer, served
from tests.kit.tools import Act, echo

EVIL = '"><script>&'


def asked(path: str) -> Request:
    """Return a request for a path."""
    return Request({"type": "http", "path": path, "headers": []})


@pytest.mark.parametrize(
    ("path", "style"),
    [("/login", "./plain.css"), ("/c/conv_1", "../plain.css"), ("/api/links/t", "../../plain.css")],
)
def test_a_page_links_its_stylesheet_below_any_mount_path(path: str, style: str) -> None:
    assert f'href="{style}"' in bytes(html_page(asked(path), "x").body).decode()


def test_all_content_of_a_page_is_escaped() -> None:
    made = [element("p", EVIL, EVIL), link(EVIL, EVIL), button_to(EVIL, EVIL)]
    page = bytes(html_page(asked("/"), EVIL, *made).body).decode()
    assert "<script" not in page
    assert page.count("&lt;script&gt;&amp;") == 8


def test_a_page_can_change_a_header_and_is_not_cached() -> None:
    page = html_page(asked("/"), "x", headers={"referrer-policy": "same-origin"})
    assert page.headers["referrer-policy"] == "same-origin"
    assert page.headers["cache-control"] == HEADERS["cache-control"] == "no-store"


FORM = {"content-type": "application/x-www-form-urlencoded"}
AGENTS = "/api/agents"
LOGIN = "/api/session"


async def key_of(server: InMemoryServer) -> str:
    """Make a key."""
    return await server.database_parts.keys.create("ann")


async def test_sign_in_takes_a_key_and_redirects_to_the_chat() -> None:
    """Spec: "`/login` takes a key; POST `/api/session` checks it and sets the cookie"."""
    async with served(clock=FakeClock()) as server:
        key = await key_of(server)
        page = await server.client.get("/login")
        refused = await server.client.get(AGENTS)
        done = await server.client.post(LOGIN, content=f"key={key}", headers=FORM)
        taken = await server.client.get(AGENTS)
    assert (page.status_code, 'action="./api/session"' in page.text) == (200, True)
    assert (refused.status_code, taken.status_code) == (401, 200)
    assert (done.status_code, done.headers["location"]) == (303, "../")
    rules = done.headers["set-cookie"].partition("; ")[2]
    assert rules == "Max-Age=43200; Path=/; HttpOnly; SameSite=Strict"


async def test_under_https_the_cookie_is_secure() -> None:
    async with served(clock=FakeClock()) as server:
        body = {"key": await key_of(server)}
        done = await server.client.post(f"https://localhost{LOGIN}", json=body)
    assert (done.status_code, done.headers["set-cookie"].endswith("; Secure")) == (204, True)


async def test_sign_out_deletes_the_sign_in() -> None:
    async with served(clock=FakeClock()) as server:
        await server.client.post(LOGIN, json={"key": await key_of(server)})
        token = server.client.cookies["penstock_session"]
        gone = await server.client.delete(LOGIN, headers={"origin": HERE})
        kept = {"cookie": f"penstock_session={token}"}
        refused = await server.client.get(AGENTS, headers=kept)
        again = await server.client.delete(LOGIN)
    assert (gone.status_code, refused.status_code, again.status_code) == (204, 401, 204)
    assert "Max-Age=0" in gone.headers["set-cookie"]


async def test_a_wrong_key_is_refused_at_sign_in() -> None:
    async with served(clock=FakeClock()) as server:
        await key_of(server)
        plain = await server.client.post(LOGIN, json={"key": "pk_x"})
        form = await server.client.post(LOGIN, content="key=pk_x", headers=FORM)
    assert (plain.status_code, plain.json()["error"]["code"]) == (401, "UNAUTHENTICATED")
    assert (form.status_code, "is not valid here" in form.text) == (401, True)
    assert "set-cookie" not in plain.headers | form.headers


BODIES: list[tuple[dict[str, Any], int]] = [
    ({"json": {}}, 422),
    ({"json": {"key": 5}}, 422),
    ({"content": "", "headers": FORM}, 401),
    ({"content": b"\xff=%", "headers": FORM}, 401),
    ({"content": "key"}, 415),
]


@pytest.mark.parametrize(("sent", "status"), BODIES)
async def test_a_body_without_a_key_is_refused(sent: dict[str, Any], status: int) -> None:
    async with served(clock=FakeClock()) as server:
        await key_of(server)
        assert (await server.client.post(LOGIN, **sent)).status_code == status


async def test_guessing_is_stopped_after_five_tries_a_minute() -> None:
    """Spec: "5 wrong tries a minute per address: 429"."""
    clock = FakeClock()
    async with served(clock=clock) as server:
        key = await key_of(server)
        tried = [await server.client.post(LOGIN, json={"key": f"pk_{n}"}) for n in range(6)]
        right = await server.client.post(LOGIN, json={"key": key})
        clock.advance(60)
        later = await server.client.post(LOGIN, json={"key": key})
    assert [each.status_code for each in tried] == [401] * 5 + [429]
    assert 0 < int(right.headers["retry-after"]) <= 60
    assert (right.status_code, later.status_code) == (429, 204)


async def test_concurrent_guesses_are_counted_like_others() -> None:
    """Each is counted before the lookup; a right one does not count."""
    async with served(clock=FakeClock()) as server:
        key = await key_of(server)
        for _ in range(6):
            assert (await server.client.post(LOGIN, json={"key": key})).status_code == 204
        guesses = [server.client.post(LOGIN, json={"key": f"pk_{n}"}) for n in range(20)]
        statuses = [each.status_code for each in await asyncio.gather(*guesses)]
    assert sorted(statuses) == [401] * 5 + [429] * 15


async def test_a_cookie_is_renewed_after_half_its_lifetime() -> None:
    clock = FakeClock()
    async with served(clock=clock) as server:
        await server.client.post(LOGIN, json={"key": await key_of(server)})
        fresh = await server.client.get(AGENTS)
        clock.advance(6 * 3600 + 1)
        renewed = await server.client.get(AGENTS)
    assert "set-cookie" not in fresh.headers
    assert renewed.headers["set-cookie"].startswith("penstock_session=")
    assert "Max-Age=43200" in renewed.headers["set-cookie"]


ORIGINS = [
    ({"origin": HERE}, 201),
    ({"sec-fetch-site": "same-origin"}, 201),
    ({"origin": "null"}, 403),
    ({"origin": "https://evil.example"}, 403),
    ({"origin": f"{HERE}.evil.example"}, 403),
    ({"sec-fetch-site": "cross-site"}, 403),
    ({"sec-fetch-site": "none"}, 403),
    ({}, 403),
]


@pytest.mark.parametrize(("headers", "status"), ORIGINS)
async def test_with_the_cookie_only_own_pages_can_change_things(
    headers: dict[str, str], status: int
) -> None:
    """Spec: "every method but GET and HEAD needs `Origin` equal to our own"."""
    async with served(clock=FakeClock()) as server:
        await server.client.post(LOGIN, json={"key": await key_of(server)})
        path = f"{AGENTS}/assistant/chat/conversations"
        made = await server.client.post(path, headers=headers)
        assert (await server.client.get(AGENTS, headers=headers)).status_code == 200
    assert made.status_code == status
    if status == 403:
        assert made.json()["error"]["code"] == "ORIGIN_NOT_ALLOWED"


async def test_a_key_in_the_header_wins_over_the_cookie() -> None:
    """Spec: "`Authorization` wins over the cookie"."""
    async with served(clock=FakeClock()) as server:
        await server.client.post(LOGIN, json={"key": await key_of(server)})
        bob = {"authorization": f"Bearer {await server.database_parts.keys.create('bob')}"}
        made = await server.client.post(f"{AGENTS}/assistant/chat/conversations", headers=bob)
        wrong = await server.client.get(AGENTS, headers={"authorization": "Bearer pk_x"})
        own = await server.client.get(f"{AGENTS}/assistant/chat/conversations")
    assert (made.status_code, wrong.status_code) == (201, 401)
    assert own.json()["conversations"] == []


@pytest.mark.parametrize("origin", ["https://evil.example", "http://localhost:1"])
async def test_a_foreign_page_cannot_sign_in(origin: str) -> None:
    async with served(clock=FakeClock()) as server:
        sent = f"key={await key_of(server)}"
        refused = await server.client.post(LOGIN, content=sent, headers=FORM | {"origin": origin})
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "ORIGIN_NOT_ALLOWED")


async def test_local_requests_need_no_sign_in() -> None:
    assert LOCAL_PROFILE.session_id is None
    async with served() as server:
        assert (await server.client.get(AGENTS)).status_code == 200
        assert (await server.client.post(LOGIN, json={"key": "pk_x"})).status_code == 401


SCRIPT = '<script>alert("x")</script>'


async def test_a_transcript_escapes_every_message() -> None:
    """Spec: "a plain transcript, made on the server, no script, everything escaped"."""
    model = ScriptedModel([call("echo", text="t"), say(SCRIPT)])
    async with served(model=model, tools=[Act("echo", echo)]) as server:
        response = await server.say(f"Hi {SCRIPT}")
        page = await server.client.get(f"/c/{response.headers['x-conversation-id']}")
    assert page.status_code == 200
    assert "script" not in page.text.replace("&lt;script&gt;", "").replace("&lt;/script&gt;", "")
    assert page.text.count("<article>") == 2
    assert "called echo" in page.text
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert page.headers["cache-control"] == "no-store"


async def test_a_transcript_links_to_the_chat() -> None:
    async with served() as server:
        name = (await server.say("Hi")).headers["x-conversation-id"]
        assert f'href="../#assistant/{name}"' in (await server.client.get(f"/c/{name}")).text


async def test_a_transcript_links_to_the_files_of_a_message() -> None:
    async with served() as server:
        file = {"data": "aGk=", "name": "<b>.txt"}
        name = (await server.say("Hi", attachments=[file])).headers["x-conversation-id"]
        page = (await server.client.get(f"/c/{name}")).text
        address, _, text = page.partition('<a href="../api/blobs/')[2].partition('">')
        assert text.startswith("&lt;b&gt;.txt</a>")
        shown = await server.client.get(f"/api/blobs/{unescape(address)}")
    assert (shown.content, shown.headers["content-type"]) == (b"hi", "text/plain")


async def test_a_long_transcript_has_pages() -> None:
    async with served() as server:
        name = (await server.say("/call")).headers["x-conversation-id"]
        for _ in range(PAGE_SIZE // 2):
            await server.say("/call", conversationId=name)
        newest = (await server.client.get(f"/c/{name}")).text
        older = newest.partition(f'href="../c/{name}?')[2].partition('"')[0]
        oldest = (await server.client.get(f"/c/{name}?{older}")).text
    assert (newest.count("<article>"), oldest.count("<article>")) == (PAGE_SIZE, 2)
    assert "Older messages" not in oldest


async def test_a_transcript_redirects_to_sign_in_without_a_key() -> None:
    async with served(clock=FakeClock()) as server:
        key = await server.database_parts.keys.create("ann")
        bob = {"authorization": f"Bearer {await server.database_parts.keys.create('bob')}"}
        response = await server.client.post(
            CHAT, json={"content": "Hi"}, headers={"authorization": f"Bearer {key}"}
        )
        path = f"/c/{response.headers['x-conversation-id']}"
        led = await server.client.get(path)
        others = await server.client.get(path, headers=bob)
        nothing = await server.client.get("/c/conv_x", headers=bob)
    assert (led.status_code, led.headers["location"]) == (303, "../login")
    assert (others.status_code, nothing.status_code) == (404, 404)
