"""Admission: local requests while no key exists, then only requests with a key."""

from typing import Any

import httpx2
import pytest
from starlette.datastructures import Headers

from penstock.app.settings_sections import LocalSection, RateSection, ServerSection
from penstock.core.clock import Moment
from penstock.core.errors import ConfigError, OriginNotAllowed
from penstock.core.ids import ProfileId
from penstock.core.profile import ADMIN
from penstock.server.application import create_application
from penstock.server.auth import HEALTH, Cookies, check_bind, is_loopback
from penstock.testing.clock import FakeClock
from tests.kit.server import CHAT, HERE, InMemoryServer, in_memory, served
from tests.kit.tools import Act

AGENTS = "/api/agents"
OPEN_BIND = ServerSection(host="0.0.0.0")  # noqa: S104


async def get(server: InMemoryServer, path: str = AGENTS, **headers: str) -> Any:
    """Send a request with these headers."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return await server.client.get(path, headers=named)


@pytest.mark.parametrize("host", ["localhost", "localhost:8000", "127.0.0.1:1", "[::1]:8000"])
async def test_local_requests_need_no_key_while_none_exists(host: str) -> None:
    async with served() as server:
        assert (await get(server, host=host)).status_code == 200


@pytest.mark.parametrize(
    "host",
    ["evil.example", "localhost.evil.example", "127.0.0.2", "", "localhost@evil.example",
     "user@localhost", "localhost/x", "[::1",
     "evil.example:80", "localhost:99999999"],
)  # fmt: skip
async def test_a_request_for_a_foreign_host_is_refused(host: str) -> None:
    """In local mode `Host` must be localhost, 127.0.0.1 or [::1] with any port."""
    async with served() as server:
        response = await get(server, host=host)
    assert response.status_code == 403
    assert response.json()["error"]["code"] == "HOST_NOT_ALLOWED"


ORIGINS = [
    ("http://localhost:5173", 200),
    ("http://[::1]", 200),
    ("https://allowed.example", 200),
    ("https://evil.example", 403),
    ("http://localhost.evil.example", 403),
    ("null", 403),
    ("", 403),
]


@pytest.mark.parametrize(("origin", "status"), ORIGINS)
async def test_only_pages_of_this_machine_can_send_requests(origin: str, status: int) -> None:
    section = ServerSection(cors_origins=("https://allowed.example",))
    async with served(server=section) as server:
        response = await get(server, origin=origin)
    assert response.status_code == status
    if status == 403:
        assert response.json()["error"]["code"] == "ORIGIN_NOT_ALLOWED"


async def test_once_a_key_exists_every_request_needs_one() -> None:
    async with served(clock=FakeClock()) as server:
        key = await server.database_parts.keys.create("ann")
        refused = await get(server)
        assert refused.status_code == 401
        assert refused.headers["www-authenticate"] == "Bearer"
        assert refused.json()["error"]["code"] == "UNAUTHENTICATED"
        taken = await get(server, authorization=f"Bearer {key}", host="other.example")
        assert taken.status_code == 200
        assert (await get(server, "/api/health")).status_code == 200


@pytest.mark.parametrize(
    ("peer", "status"),
    [
        (("127.0.0.1", 5000), 200),
        (("::1", 5000), 200),
        (("::ffff:127.0.0.1", 5000), 200),
        (("10.0.0.9", 5000), 401),
        (("", 5000), 401),
        (("127.0.0.1", 0), 401),
        (None, 401),
    ],
)
async def test_a_request_of_another_machine_needs_a_key_even_while_none_exists(
    peer: Any, status: int
) -> None:
    """The embedding program can bind more addresses than `server.host`, or a Unix socket."""
    async with in_memory() as runtime:
        transport = httpx2.ASGITransport(create_application(runtime), client=peer)
        async with httpx2.AsyncClient(transport=transport, base_url=HERE) as client:
            assert (await client.get(AGENTS)).status_code == status


@pytest.mark.parametrize("host", ["localhost", "evil.example"])
async def test_health_refuses_foreign_hosts_while_no_key_exists(host: str) -> None:
    """A page whose host name resolves to this machine receives nothing (DNS rebinding)."""
    async with served() as server:
        assert (await get(server)).status_code == 200
        response = await get(server, HEALTH, host=host)
    assert response.status_code == (200 if host == "localhost" else 403)


async def test_every_invalid_key_gets_the_same_refusal() -> None:
    """Missing, unknown, expired, revoked: the same 401."""
    clock = FakeClock()
    async with served(clock=clock) as server:
        keys = server.database_parts.keys
        old = await keys.create("old", expires_at=Moment(clock.now() + 1000))
        gone = await keys.create("gone")
        await keys.revoke("gone")
        clock.advance(1)
        tried = [f"Bearer {old}", f"Bearer {gone}", "Bearer pk_x", "Basic eDp5", "Bearer"]
        answers = {(await get(server, authorization=each)).text for each in tried}
        answers.add((await get(server)).text)
    assert len(answers) == 1


async def test_a_refusal_names_the_missing_permission() -> None:
    async with served(clock=FakeClock()) as server:
        key = await server.database_parts.keys.create("reader", permissions=["read"])
        headers = {"authorization": f"Bearer {key}"}
        assert (await server.client.get(AGENTS, headers=headers)).status_code == 200
        response = await server.client.post(CHAT, json={"content": "Hi"}, headers=headers)
    assert response.status_code == 403
    assert response.json()["error"]["code"] == "FORBIDDEN"
    assert "'chat'" in response.json()["error"]["message"]


async def test_objects_of_other_profiles_are_not_found() -> None:
    """Conversations, tasks, questions belong to a profile: to others they are 404."""
    async with served(clock=FakeClock()) as server:
        keys = server.database_parts.keys
        ann, bob = [
            {"authorization": f"Bearer {await keys.create(name)}"} for name in ("ann", "bob")
        ]
        boss = await keys.create("boss", permissions=["read", "chat", ADMIN])
        response = await server.client.post(CHAT, json={"content": "Hi"}, headers=ann)
        name = response.headers["x-conversation-id"]
        paths = [
            f"{CHAT}?conversationId={name}",
            f"{CHAT}/stream?conversationId={name}",
            f"/api/tasks/{response.headers['x-task-id']}",
            f"/api/tasks/{response.headers['x-task-id']}/events",
        ]
        for path in paths:
            assert (await server.client.get(path, headers=bob)).status_code == 404, path
            admin = await get(server, path, authorization=f"Bearer {boss}")
            assert admin.status_code == 200, path
        body = {"content": "Hi", "conversationId": name}
        assert (await server.client.post(CHAT, json=body, headers=bob)).status_code == 404
        deleted = await server.client.delete(f"{CHAT}/conversations/{name}", headers=bob)
        assert deleted.status_code == 404
        assert (await server.client.get(CHAT, headers=bob)).json()["messages"] == []


async def test_requests_are_counted_by_class() -> None:
    clock = FakeClock()
    async with served(clock=clock, rates=RateSection(chat=2, general=3)) as server:
        key = await server.database_parts.keys.create("ann")
        headers = {"authorization": f"Bearer {key}"}
        for _ in range(2):
            response = await server.client.post(CHAT, json={"content": "Hi"}, headers=headers)
            assert response.status_code == 200
        refused = await server.client.post(CHAT, json={"content": "Hi"}, headers=headers)
        assert refused.status_code == 429
        assert refused.json()["error"]["code"] == "RATE_LIMITED"
        assert 0 < int(refused.headers["retry-after"]) <= 60
        general = await server.client.get(AGENTS, headers=headers)
        assert general.headers["x-ratelimit-limit"] == "3"
        assert general.headers["x-ratelimit-remaining"] == "2"
        assert int(general.headers["x-ratelimit-reset"]) * 1000 > clock.now()
        clock.advance(60)
        later = await server.client.post(CHAT, json={"content": "Hi"}, headers=headers)
        assert later.status_code == 200


async def test_local_requests_are_not_counted() -> None:
    async with served(rates=RateSection(general=1)) as server:
        for _ in range(3):
            response = await get(server)
            assert response.status_code == 200
            assert "x-ratelimit-limit" not in response.headers


async def test_guessed_keys_are_counted_by_address() -> None:
    proxied = ServerSection(host="0.0.0.0", trusted_proxies=("127.0.0.1",))  # noqa: S104
    async with served(server=proxied, rates=RateSection(general=1), clock=FakeClock()) as server:
        first = await get(server, x_forwarded_for="9.9.9.9, 10.0.0.1")
        assert first.status_code == 401
        assert (await get(server, x_forwarded_for="8.8.8.8, 10.0.0.1")).status_code == 429
        assert (await get(server, x_forwarded_for="8.8.8.8, 10.0.0.2")).status_code == 401


async def test_trusted_and_empty_hops_are_skipped() -> None:
    proxied = ServerSection(host="0.0.0.0", trusted_proxies=("127.0.0.1",))  # noqa: S104
    async with served(server=proxied, rates=RateSection(general=1), clock=FakeClock()) as server:
        assert (await get(server, x_forwarded_for="9.9.9.9, 127.0.0.1")).status_code == 401
        for hops in ("9.9.9.9", "9.9.9.9, , 127.0.0.1", "8.8.8.8, 9.9.9.9,"):
            assert (await get(server, x_forwarded_for=hops)).status_code == 429, hops
        for hops in ("", "127.0.0.1, "):
            status = (await get(server, x_forwarded_for=hops)).status_code
            assert status == (429 if hops else 401), hops


async def test_every_forwarded_header_line_is_read() -> None:
    """Some proxies append their own header line; the first line is that of the client."""
    proxied = ServerSection(host="0.0.0.0", trusted_proxies=("127.0.0.1",))  # noqa: S104
    async with served(server=proxied, rates=RateSection(general=1), clock=FakeClock()) as server:
        for spoofed, status in (("1.1.1.1", 401), ("2.2.2.2", 429)):
            lines = [("x-forwarded-for", spoofed), ("x-forwarded-for", "9.9.9.9")]
            response = await server.client.get(AGENTS, headers=lines)
            assert response.status_code == status


@pytest.mark.parametrize(
    ("trusted", "message", "is_secure"),
    [
        (True, "https", True),
        (True, "http", False),
        (True, "gopher", False),
        (False, "https", False),
    ],
)
async def test_only_a_trusted_proxy_can_report_https(
    trusted: bool, message: str, is_secure: bool
) -> None:
    section = ServerSection(trusted_proxies=("127.0.0.1",) if trusted else ())
    async with served(server=section) as server:
        key = await server.database_parts.keys.create("ann")
        response = await server.client.post(
            "/api/session", json={"key": key}, headers={"x-forwarded-proto": message}
        )
    assert response.status_code == 204
    assert ("Secure" in response.headers["set-cookie"]) is is_secure


@pytest.mark.parametrize("path", ["/api/agents/", "/api/tasks/", "/login/"])
async def test_no_answer_repeats_the_host_of_the_client(path: str) -> None:
    """A redirect for a slash too many went to the `Host` of the request, with a key or without."""
    async with served() as server:
        key = await server.database_parts.keys.create("ann")
        headers = {"host": "evil.com", "authorization": f"Bearer {key}"}
        response = await server.client.get(path, headers=headers)
    assert response.status_code == 404
    assert "location" not in response.headers


async def test_a_wrong_key_is_refused_even_where_no_key_is_needed() -> None:
    async with served() as server:
        key = await server.database_parts.keys.create("ann")
        answers = [
            await get(server, "/openapi.json"),
            await get(server, "/openapi.json", authorization=f"Bearer {key}"),
            await get(server, "/openapi.json", authorization="Bearer pk_wrong"),
            await get(server, "/openapi.json", authorization=f"Basic {key}"),
        ]
    assert [each.status_code for each in answers] == [200, 200, 401, 401]


async def test_wrong_keys_are_counted_by_address() -> None:
    async with served(rates=RateSection(general=2), clock=FakeClock()) as server:
        key = await server.database_parts.keys.create("ann")
        tried = [await get(server, authorization=f"Bearer pk_{guess}") for guess in range(4)]
        assert [each.status_code for each in tried] == [401, 401, 429, 429]
        left = [each.headers["x-ratelimit-remaining"] for each in tried]
        assert left == ["1", "0", "0", "0"]
        assert (await get(server, authorization=f"Bearer {key}")).status_code == 200


async def test_every_answer_has_a_request_id() -> None:
    async with served() as server:
        answers = [await get(server), await get(server, "/nope"), await get(server, host="x")]
    ids = {answer.headers["x-request-id"] for answer in answers}
    assert len(ids) == 3


OWN = ["127.0.0.1", "127.9.9.9", "::1", "[::1]", "localhost"]
OTHERS = ["0.0.0.0", "::", "10.0.0.1", "example.org", ""]  # noqa: S104


def test_loopback_addresses_are_recognized() -> None:
    assert [host for host in OWN + OTHERS if is_loopback(host)] == OWN


async def test_binding_a_public_address_needs_a_key() -> None:
    """Any other bind address refuses to start without a key and says how to make one."""
    async with in_memory() as runtime:
        assert runtime.parts.storage.database_parts is not None
        keys = runtime.parts.storage.database_parts.keys
        with pytest.raises(ConfigError, match="penstock keys create NAME"):
            await check_bind("0.0.0.0", keys)  # noqa: S104
        with pytest.raises(ConfigError):
            await check_bind("0.0.0.0", None)  # noqa: S104
        await check_bind("127.0.0.1", keys)
        await keys.create("ann", profile_id=ProfileId("team"))
        await check_bind("0.0.0.0", keys)  # noqa: S104


async def test_a_public_address_admits_no_request_while_no_key_exists() -> None:
    async with served(server=OPEN_BIND) as server:
        assert (await get(server)).status_code == 401


async def test_the_settings_define_the_local_profile() -> None:
    """`local.permissions`: permissions of the profile `local` when auth is off."""
    async with served() as server:
        server.runtime.local = LocalSection(permissions=()).profile
        ready = await get(server, "/api/ready")
    assert "database" not in ready.text


NUL = [
    ("GET", "/api/tasks/a%00b", None, 404),
    ("DELETE", f"{CHAT}/conversations/%00", None, 404),
    ("GET", f"{CHAT}?conversationId=%00", None, 400),
    ("GET", "/api/questions?agentId=a%00", None, 400),
    ("POST", CHAT, {"content": "Hi", "conversationId": "a\x00"}, 422),
    ("POST", "/api/direct-calls/add", {"conversationId": "a\x00"}, 400),
]


@pytest.mark.parametrize(("method", "path", "body", "status"), NUL)
async def test_a_nul_in_a_request_is_refused(
    method: str, path: str, body: Any, status: int
) -> None:
    """Shows: "no 5xx": a NUL in a text is an error of Postgres."""
    async with served(tools=[Act("add", direct_call=True)]) as server:
        response = await server.client.request(method, path, json=body)
    assert response.status_code == status
    assert "NUL" in response.json()["error"]["message"]


PUBLIC = ServerSection(public_url="https://penstock.example/")
HOST = {"host": "inner:8000"}


def scope(method: str = "POST", scheme: str = "http") -> dict[str, Any]:
    """Return the scope of a request."""
    return {"type": "http", "method": method, "scheme": scheme}


FOUND = [("penstock_session=t; a=b", "t"), ("a=b", None), ("penstock_session=", None), ("", None)]


@pytest.mark.parametrize(("cookie", "token"), FOUND)
def test_the_token_is_found_among_other_cookies(cookie: str, token: str | None) -> None:
    assert Cookies(ServerSection()).find(Headers({"cookie": cookie})) == token


@pytest.mark.parametrize(
    ("server", "scheme", "secure"),
    [(ServerSection(), "http", False), (ServerSection(), "https", True), (PUBLIC, "http", True)],
)
def test_the_cookie_is_secure_under_https(
    server: ServerSection, scheme: str, *, secure: bool
) -> None:
    made = Cookies(server).header(scope(scheme=scheme), "t", 5)
    assert made.startswith("penstock_session=t; Max-Age=5; Path=/; HttpOnly; SameSite=Strict")
    assert made.endswith("; Secure") is secure


@pytest.mark.parametrize("origin", ["http://inner:8000", "https://penstock.example"])
def test_own_origins_are_the_host_and_the_public_url(origin: str) -> None:
    for check in (Cookies(PUBLIC).check_origin, Cookies(PUBLIC).check_form):
        check(scope(), Headers(HOST | {"origin": origin}))
        with pytest.raises(OriginNotAllowed):
            check(scope(), Headers(HOST | {"origin": f"{origin}.evil.example"}))


def test_a_read_request_can_come_from_any_origin() -> None:
    Cookies(PUBLIC).check_origin(scope("GET"), Headers(HOST | {"origin": "https://evil.example"}))
    with pytest.raises(OriginNotAllowed, match="a program sends `Authorization"):
        Cookies(PUBLIC).check_origin(scope(), Headers(HOST | {"origin": "https://inner:8000"}))
