"""The page at `/`: its files, its access, and its content security policy."""

import re
from pathlib import Path

import httpx2
import pytest

from penstock.core.limits import Limits
from penstock.server import page
from penstock.server.application import create_application
from penstock.server.page import HEADERS
from tests.kit.server import HERE, in_memory, served

FOLDER = Path(page.__file__).with_suffix("")
SCRIPTS = ["page.js", "runs.js", "view.js"]
NAMES = ["index.html", "page.css", *SCRIPTS]
FILES = [
    ("/", "text/html; charset=utf-8", "index.html"),
    ("/page.css", "text/css; charset=utf-8", "page.css"),
    ("/page.js", "text/javascript; charset=utf-8", "page.js"),
    ("/runs.js", "text/javascript; charset=utf-8", "runs.js"),
    ("/view.js", "text/javascript; charset=utf-8", "view.js"),
]
POLICY = {
    "default-src": "'none'",
    "script-src": "'self'",
    "style-src": "'self'",
    "connect-src": "'self'",
    "img-src": "'self' data:",
    "base-uri": "'none'",
    "form-action": "'none'",
    "frame-ancestors": "'none'",
}


def read_scripts() -> str:
    """Return all scripts of the page."""
    return "\n".join((FOLDER / name).read_text() for name in SCRIPTS)


@pytest.mark.parametrize(("path", "media_type", "name"), FILES)
async def test_each_file_is_served_unchanged_with_strict_headers(
    path: str, media_type: str, name: str
) -> None:
    async with served() as server:
        response = await server.client.get(path)
        head = await server.client.head(path)
    assert (response.status_code, response.headers["content-type"]) == (200, media_type)
    written = (FOLDER / name).read_bytes()
    assert response.content == written.replace(b"{content_chars}", b"100000")
    assert HEADERS.items() <= dict(response.headers).items()
    assert (head.status_code, head.content) == (200, b"")


async def test_the_page_has_the_server_limit_of_a_message() -> None:
    async with served(limits=Limits(content_chars=70)) as server:
        html = (await server.client.get("/")).text
    assert re.findall(r'<textarea id="content" [^>]*maxlength="(\d+)"', html) == ["70"]


async def test_the_page_is_503_until_the_project_is_open() -> None:
    """Access to the page is known once the project is open; until then it is 503."""
    transport = httpx2.ASGITransport(create_application(in_memory))
    async with httpx2.AsyncClient(transport=transport, base_url=HERE) as client:
        assert (await client.get("/")).status_code == 503


def test_the_policy_allows_only_own_resources() -> None:
    policy = HEADERS["content-security-policy"].split("; ")
    assert dict(each.split(" ", 1) for each in policy) == POLICY
    assert HEADERS["x-content-type-options"] == "nosniff"
    assert HEADERS["referrer-policy"] == "no-referrer"


@pytest.mark.parametrize("path", ["/", "/page.css", "/page.js", "/runs.js", "/view.js"])
async def test_the_page_needs_no_key_but_its_requests_do(path: str) -> None:
    """The page asks for the key itself, so it is served without one."""
    async with served() as server:
        await server.database_parts.keys.create("ann")
        assert (await server.client.get(path)).status_code == 200
        assert (await server.client.get("/api/agents")).status_code == 401


async def test_the_local_page_refuses_another_host_name() -> None:
    async with served() as server:
        response = await server.client.get("/", headers={"host": "evil.example"})
    assert (response.status_code, response.json()["error"]["code"]) == (403, "HOST_NOT_ALLOWED")


@pytest.mark.parametrize("path", ["/page", "/page/index.html", "/../page.py", "/x.js"])
async def test_a_missing_file_is_reported_as_json(path: str) -> None:
    async with served() as server:
        response = await server.client.get(path)
    assert (response.status_code, response.json()["error"]["code"]) == (404, "NOT_FOUND")


async def test_a_wrong_method_gets_the_allowed_ones() -> None:
    async with served() as server:
        response = await server.client.post("/")
    assert response.status_code == 405
    assert set(response.headers["allow"].split(", ")) == {"GET", "HEAD"}


async def test_the_page_is_not_in_the_api_document() -> None:
    async with served() as server:
        paths = (await server.client.get("/openapi.json")).json()["paths"]
    assert not [path for path in paths if not path.startswith("/api/")]


@pytest.mark.parametrize("name", NAMES)
def test_the_page_loads_nothing_from_other_servers(name: str) -> None:
    """No external hosts, in a file that a person can read in one sitting."""
    text = (FOLDER / name).read_text()
    assert not re.findall(r"(?:https?:)?//[\w-]+\.\w", text)
    assert not re.findall(r"@import|url\(", text)
    assert len(text.splitlines()) <= 400


def test_foreign_content_becomes_text_and_never_markup() -> None:
    script, html = read_scripts(), (FOLDER / "index.html").read_text()
    unsafe = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function"
    assert not re.findall(unsafe, script)
    assert not re.findall(r"\son\w+=|\sstyle=|<style|<script(?![^>]*\ssrc=)", html)


def test_the_page_stores_no_key() -> None:
    script = read_scripts()
    assert not re.findall(r"localStorage|sessionStorage|indexedDB|document\.cookie", script)


def test_the_page_has_every_element_that_its_scripts_use() -> None:
    script, html = read_scripts(), (FOLDER / "index.html").read_text()
    asked = set(re.findall(r'(?:byId|show)\("([\w-]+)"', script))
    assert asked <= set(re.findall(r'\sid="([\w-]+)"', html))


def test_a_question_of_a_fork_takes_notes_decide_and_cancel() -> None:
    """14.2: at a fork `notes`, `{decide: true}` when the step names an agent, `{cancel: true}`."""
    script = read_scripts()
    for part in ("notes: notes.value", "allowDecide", "{ decide: true }", "{ cancel: true }"):
        assert part in script


@pytest.mark.parametrize("name", NAMES)
def test_no_address_in_the_page_is_absolute(name: str) -> None:
    """The server may be mounted below a prefix."""
    text = (FOLDER / name).read_text()
    assert not re.findall(r"""(?:href|src|action)="/|["'`]/(?:api/|page|view|runs|login)\b""", text)
