"""Pages without a script."""

import pytest
from starlette.requests import Request

from penstock.server.pages.plain import HEADERS, button_to, element, html_page, link

EVIL = '"><script>&'


def asked(path: str) -> Request:
    """Return a request for a path."""
    return Request({"type": "http", "path": path, "headers": []})


@pytest.mark.parametrize(
    ("path", "style"),
    [("/login", "./plain.css"), ("/c/conv_1", "../plain.css"), ("/api/links/t", "../../plain.css")],
)
def test_a_page_finds_its_style_wherever_the_server_is_mounted(path: str, style: str) -> None:
    assert f'href="{style}"' in bytes(html_page(asked(path), "x").body).decode()


def test_whatever_is_put_in_is_text() -> None:
    made = [element("p", EVIL, EVIL), link(EVIL, EVIL), button_to(EVIL, EVIL)]
    page = bytes(html_page(asked("/"), EVIL, *made).body).decode()
    assert "<script" not in page
    assert page.count("&lt;script&gt;&amp;") == 8


def test_a_page_keeps_to_itself() -> None:
    page = html_page(asked("/"), "x", headers={"referrer-policy": "same-origin"})
    assert page.headers["referrer-policy"] == "same-origin"
    assert page.headers["cache-control"] == HEADERS["cache-control"] == "no-store"
