"""Pages without a script."""

from penstock.server.pages.plain import HEADERS, button_to, element, html_page, link

EVIL = '"><script>&'


def test_whatever_is_put_in_is_text() -> None:
    made = [element("p", EVIL, EVIL), link(EVIL, EVIL), button_to(EVIL, EVIL)]
    page = bytes(html_page(EVIL, *made).body).decode()
    assert "<script" not in page
    assert page.count("&lt;script&gt;&amp;") == 8


def test_a_page_keeps_to_itself() -> None:
    page = html_page("x", headers={"referrer-policy": "same-origin"})
    assert page.headers["referrer-policy"] == "same-origin"
    assert page.headers["cache-control"] == HEADERS["cache-control"] == "no-store"
