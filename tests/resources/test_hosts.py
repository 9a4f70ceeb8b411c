"""Patterns of hosts."""

import pytest

from penstock.resources.hosts import HostPattern, place_of

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


def test_a_place_is_shown_as_an_origin() -> None:
    assert str(place_of("https", "A.b", None)) == "https://a.b"
    assert str(place_of("http", "::1", 81)) == "http://[::1]:81"
