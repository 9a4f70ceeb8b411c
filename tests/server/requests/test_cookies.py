"""The cookie of a browser that is signed in."""

from typing import Any

import pytest
from starlette.datastructures import Headers

from penstock.app.sections import ServerSection
from penstock.core.errors import OriginNotAllowed
from penstock.server.requests.cookies import Cookies

PUBLIC = ServerSection(public_url="https://penstock.example/")
HOST = {"host": "inner:8000"}


def scope(method: str = "POST", scheme: str = "http") -> dict[str, Any]:
    """A request, as the server sees it."""
    return {"type": "http", "method": method, "scheme": scheme}


FOUND = [("penstock_session=t; a=b", "t"), ("a=b", None), ("penstock_session=", None), ("", None)]


@pytest.mark.parametrize(("cookie", "token"), FOUND)
def test_the_token_is_found_among_others(cookie: str, token: str | None) -> None:
    assert Cookies(ServerSection()).find(Headers({"cookie": cookie})) == token


@pytest.mark.parametrize(
    ("server", "scheme", "secure"),
    [(ServerSection(), "http", False), (ServerSection(), "https", True), (PUBLIC, "http", True)],
)
def test_under_https_it_is_secure(server: ServerSection, scheme: str, *, secure: bool) -> None:
    made = Cookies(server).header(scope(scheme=scheme), "t", 5)
    assert made.startswith("penstock_session=t; Max-Age=5; Path=/; HttpOnly; SameSite=Strict")
    assert made.endswith("; Secure") is secure


@pytest.mark.parametrize("origin", ["http://inner:8000", "https://penstock.example"])
def test_our_own_is_here_and_where_people_find_us(origin: str) -> None:
    Cookies(PUBLIC).check_origin(scope(), Headers(HOST | {"origin": origin}))
    Cookies(PUBLIC).check_form(scope(), Headers(HOST | {"origin": origin}))


def test_who_only_reads_may_come_from_anywhere() -> None:
    Cookies(PUBLIC).check_origin(scope("GET"), Headers(HOST | {"origin": "https://evil.example"}))
    with pytest.raises(OriginNotAllowed, match="a program sends `Authorization"):
        Cookies(PUBLIC).check_origin(scope(), Headers(HOST | {"origin": "https://inner:8000"}))
