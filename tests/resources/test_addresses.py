"""Which addresses are public."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.resources.addresses import is_guarded, is_literal, is_public
from tests.kit.json_values import FEW

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
def test_what_stands_for_an_address_is_as_public_as_it(address: object) -> None:
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
def test_what_is_written_as_an_address(host: str, *, literal: bool) -> None:
    assert is_literal(host) == literal
