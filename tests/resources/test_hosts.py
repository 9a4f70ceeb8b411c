"""Patterns of hosts."""

import pytest

from penstock.resources.hosts import HostPattern, place_of, read_private

TABLE = [
    ("api.example.com", "https://api.example.com", True),
    ("API.example.com", "https://api.EXAMPLE.com.", True),
    ("api.example.com", "http://api.example.com", False),
    ("api.example.com", "https://api.example.com:8443", False),
    ("api.example.com:8443", "https://api.example.com:8443", True),
    ("http://api.example.com", "http://api.example.com", True),
    ("http://api.example.com:81", "http://api.example.com:81", True),
    ("api.example.com", "https://example.com", False),
    ("api.example.com", "https://x.api.example.com", False),
    ("*.example.com", "https://a.example.com", True),
    ("*.example.com", "https://a.b.example.com", True),
    ("*.example.com", "https://example.com", False),
    ("*.example.com", "https://.example.com", False),
    ("*.example.com", "https://evilexample.com", False),
    ("*.example.com", "https://example.com.evil.org", False),
    ("*", "https://anything.org", True),
    ("*", "http://anything.org", False),
    ("*", "https://anything.org:8443", False),
    ("http://*", "http://anything.org", True),
    ("[2001:DB8::1]:444", "https://[2001:db8::1]:444", True),
    ("bücher.example", "https://xn--bcher-kva.example", True),
    ("xn--bcher-kva.example", "https://BÜCHER.example", True),
    ("*.Bücher.example", "https://a.xn--bcher-kva.example", True),
    ("*.bücher。example", "https://xn--bcher-kva.example", False),
    ("straße.example", "https://xn--strae-oqa.example", True),
    ("straße.example", "https://strasse.example", False),
    ("\uff45\uff58\uff41\uff4d\uff50\uff4c\uff45.com", "https://example.com", True),
    ("ex\u00adample。com", "https://example.com", True),
    ("example.com", "https://\uff45\uff58\uff41\uff4d\uff50\uff4c\uff45\uff0ecom", True),
    ("\uff11\uff12\uff17.0.0.1", "https://127.0.0.1", True),
    ("bücher.example", "https://bucher.example", False),
]


@pytest.mark.parametrize(("pattern", "origin", "allowed"), TABLE)
def test_a_pattern_allows_what_it_says(pattern: str, origin: str, allowed: bool) -> None:
    """`[scheme://]host[:port]`: "`*.example.com` matches any depth below"."""
    scheme, _, rest = origin.partition("://")
    host, _, port = rest.rpartition(":") if rest[-1].isdigit() else (rest, "", "")
    place = place_of(scheme, host or rest, int(port) if port.isdigit() and host else None)
    assert HostPattern.parse(pattern).allows(place) == allowed


BAD = ["", "ftp://a", "https://", "a/b", "a*", "*a", "a.*.b", "**", "*.", "a:0", "a:65536", "a:b"]


@pytest.mark.parametrize("pattern", BAD)
def test_what_is_no_pattern_is_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match="found"):
        HostPattern.parse(pattern)


ODD = [
    "exam\u200dple.com",
    "a。。b",
    "ü_b.de",
    "℀.com",
    "localhost\uff1a80",
    "-ü.de",
    "\u00ad",
    "ü" * 70,
]


@pytest.mark.parametrize("host", ODD)
def test_what_no_host_can_be_called_is_refused(host: str) -> None:
    for pattern in (host, f"*.{host}"):
        with pytest.raises(ValueError, match="no host can be called"):
            HostPattern.parse(pattern)
    with pytest.raises(ValueError, match="no host can be called"):
        place_of("https", host, None)
    with pytest.raises(ValueError, match="no host can be called"):
        read_private([f"{host}:443"])


def test_a_private_place_has_one_spelling() -> None:
    given = ["DB.local:8080", "*.Bücher。example:443", "\uff11\uff12\uff17.0.0.1:80", "[::1]:80"]
    wanted = {"db.local:8080", "*.xn--bcher-kva.example:443", "127.0.0.1:80", "::1:80"}
    assert read_private(given) == wanted


def test_a_place_is_shown_as_an_origin() -> None:
    assert str(place_of("https", "A.b", None)) == "https://a.b"
    assert str(place_of("http", "::1", 81)) == "http://[::1]:81"
