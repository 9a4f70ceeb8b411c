"""Patterns of hosts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.resources.hosts import (
    HostPattern,
    endpoint_of,
    is_guarded,
    is_literal,
    is_public,
    read_private,
)
from tests.kit.json_values import FEW

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
def test_a_pattern_allows_the_documented_hosts(pattern: str, origin: str, allowed: bool) -> None:
    """`[scheme://]host[:port]`: "`*.example.com` matches any depth below"."""
    scheme, _, rest = origin.partition("://")
    host, _, port = rest.rpartition(":") if rest[-1].isdigit() else (rest, "", "")
    place = endpoint_of(scheme, host or rest, int(port) if port.isdigit() and host else None)
    assert HostPattern.parse(pattern).allows(place) == allowed


BAD = ["", "ftp://a", "https://", "a/b", "a*", "*a", "a.*.b", "**", "*.", "a:0", "a:65536", "a:b"]


@pytest.mark.parametrize("pattern", BAD)
def test_an_invalid_pattern_is_refused(pattern: str) -> None:
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
def test_an_invalid_host_is_refused(host: str) -> None:
    for pattern in (host, f"*.{host}"):
        with pytest.raises(ValueError, match="is not a valid host name"):
            HostPattern.parse(pattern)
    with pytest.raises(ValueError, match="is not a valid host name"):
        endpoint_of("https", host, None)
    with pytest.raises(ValueError, match="is not a valid host name"):
        read_private([f"{host}:443"])


def test_a_private_place_has_one_spelling() -> None:
    given = ["DB.local:8080", "*.Bücher。example:443", "\uff11\uff12\uff17.0.0.1:80", "[::1]:80"]
    wanted = {"db.local:8080", "*.xn--bcher-kva.example:443", "127.0.0.1:80", "::1:80"}
    assert read_private(given) == wanted


def test_a_place_is_shown_as_an_origin() -> None:
    assert str(endpoint_of("https", "A.b", None)) == "https://a.b"
    assert str(endpoint_of("http", "::1", 81)) == "http://[::1]:81"


PUBLIC = ["8.8.8.8", "1.1.1.1", "2606:4700::1111", "64:ff9b::808:808", "::ffff:8.8.8.8"]
PUBLIC += ["2002:808:808::1", "223.255.255.255"]
NOT_PUBLIC = [
    "0.0.0.0",  # noqa: S104  every address of this machine
    "10.1.2.3",
    "100.64.0.1",
    "100.100.100.200",
    "127.0.0.1",
    "127.9.9.9",
    "168.63.129.16",
    "169.254.169.254",
    "172.16.0.1",
    "172.31.255.255",
    "192.0.0.192",
    "192.168.1.1",
    "192.88.99.1",
    "198.18.0.1",
    "198.51.100.7",
    "203.0.113.9",
    "224.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::127.0.0.1",
    "::ffff:127.0.0.1",
    "::ffff:169.254.169.254",
    "::ffff:0:127.0.0.1",
    "64:ff9b::a9fe:a9fe",
    "64:ff9b::7f00:1",
    "64:ff9b:1::808:808",
    "2002:7f00:1::1",
    "2002:a9fe:a9fe::1",
    "2001:0:7f00:1::1",
    "2001:db8::1",
    "fc00::1",
    "fd00:ec2::254",
    "fe80::1",
    "fe80::1%eth0",
    "fec0::1",
    "ff02::1",
    "3fff::1",
    "100::1",
    "nonsense",
    "",
]


@pytest.mark.parametrize("address", PUBLIC)
def test_a_public_address_is_public(address: str) -> None:
    assert is_public(address)


@pytest.mark.parametrize("address", NOT_PUBLIC)
def test_an_address_around_this_machine_is_not(address: str) -> None:
    assert not is_public(address)


@given(st.ip_addresses(v=4))
@FEW
def test_a_mapped_address_is_as_public_as_its_target(address: object) -> None:
    plain = is_public(str(address))
    assert is_public(f"::ffff:{address}") == plain
    assert is_public(f"64:ff9b::{address}") == plain


@pytest.mark.parametrize(
    ("address", "guarded"),
    [
        ("169.254.169.254", True),
        ("::ffff:169.254.1.1", True),
        ("64:ff9b::a9fe:a9fe", True),
        ("100.100.100.200", True),
        ("168.63.129.16", True),
        ("fe80::1%eth0", True),
        ("fd00:ec2::254", True),
        ("no address", True),
        ("10.0.0.1", False),
        ("100.100.100.201", False),
        ("fd00:ec2::253", False),
        ("127.0.0.1", False),
    ],
)
def test_addresses_that_no_name_may_lead_to(address: str, *, guarded: bool) -> None:
    """Link-local, fd00:ec2::254, 100.100.100.200 and 168.63.129.16 only as literal `ip:port`."""
    assert is_guarded(address) == guarded


@pytest.mark.parametrize(
    ("host", "literal"),
    [("169.254.1.1", True), ("fe80::1", True), ("2852039166", False), ("a.test", False)],
)
def test_canonical_addresses_are_literals(host: str, *, literal: bool) -> None:
    assert is_literal(host) == literal
