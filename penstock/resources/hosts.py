"""Hosts of requests: patterns `[scheme://]host[:port]`, and which addresses are public.

A request passes both: the name matches a pattern before DNS is asked, and the address that DNS
returns is public, also the IPv4 address inside an IPv6 one (`redirects.py` calls them for every
hop). An address with a zone, or a text that is none, counts as not public.
Proof: tests/resources/test_hosts.py, tests/resources/test_redirects.py.
"""

from collections.abc import Callable, Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Self

from msgspec import Struct

from penstock.core.late import late

_PORTS = {"http": 80, "https": 443}
ANY_HOST = "*"


class Endpoint(Struct, frozen=True):
    """Scheme, host and port of a request."""

    scheme: str
    host: str
    """In ASCII and lower case, without brackets, as in a DNS query."""
    port: int

    def __str__(self) -> str:
        """Return the origin, without the scheme's default port."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        port = "" if self.port == _PORTS.get(self.scheme) else f":{self.port}"
        return f"{self.scheme}://{host}{port}"

    @property
    def pattern(self) -> str:
        """Return the shortest pattern that allows it."""
        return str(self).removeprefix("https://")


class HostPattern(Struct, frozen=True):
    """A pattern of endpoints."""

    scheme: str
    host: str
    """A name; `*.` and a name for all names below it, at any depth; `*` for any public host."""
    port: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a pattern. Raises ValueError."""
        scheme, separator, rest = text.rpartition("://")
        scheme = scheme.lower() if separator else "https"
        if scheme not in _PORTS:
            raise ValueError(f"a host pattern is for http or https, found {text!r}")
        host, port = _split(rest)
        name = host.removeprefix("*.")
        if host != ANY_HOST and (not name or "/" in name or "*" in name):
            raise ValueError(f"a host pattern is [scheme://]host[:port], found {text!r}")
        if port and not (port.isascii() and port.isdigit() and 0 < int(port) <= 65535):  # noqa: PLR2004
            raise ValueError(f"a port is a number from 1 to 65535, found {text!r}")
        below = host.removesuffix(name)
        return cls(scheme, below + _plain(name), int(port) if port else _PORTS[scheme])

    @property
    def names_host(self) -> bool:
        """Whether the pattern is narrower than `*`."""
        return self.host != ANY_HOST

    def allows(self, endpoint: Endpoint) -> bool:
        """Whether the pattern matches an endpoint."""
        if (self.scheme, self.port) != (endpoint.scheme, endpoint.port):
            return False
        if self.host.startswith("*."):
            return endpoint.host.endswith(self.host[1:]) and endpoint.host != self.host[1:]
        return self.host in {ANY_HOST, endpoint.host}


def endpoint_of(scheme: str, host: str, port: int | None) -> Endpoint:
    """Return the endpoint of the parts of a URL. Raises ValueError for an invalid host."""
    return Endpoint(scheme, _plain(host), port or _PORTS[scheme])


def read_patterns(texts: Iterable[str]) -> tuple[HostPattern, ...]:
    """Return the patterns. Raises ValueError."""
    return tuple(map(HostPattern.parse, texts))


def read_private(texts: Iterable[str]) -> frozenset[str]:
    """Return entries `host:port` in the spelling of `Endpoint`. Raises ValueError."""
    return frozenset(map(_private, texts))


def _private(text: str) -> str:
    host, colon, port = text.rpartition(":")
    name = host.removeprefix("*.")
    return f"{host.removesuffix(name)}{_plain(name)}{colon}{port}"


def _split(text: str) -> tuple[str, str]:
    if text.startswith("["):
        host, _, rest = text[1:].partition("]")
        return host, rest.removeprefix(":")
    host, _, port = text.partition(":")
    return host, port


def _plain(host: str) -> str:
    """Return the one spelling of a host; the code for international names is loaded late."""
    name = host.lower().strip("[]")
    if not name.isascii():
        ascii_name: Callable[[str], str] = late("penstock.resources.international:ascii_name")
        name = ascii_name(name)
    return name.removesuffix(".")


# ---- addresses ----

_NOT_PUBLIC_4 = [
    IPv4Network(each)
    for each in (
        "0.0.0.0/8",  # this network
        "10.0.0.0/8",
        "100.64.0.0/10",  # behind carriers; metadata of one cloud
        "127.0.0.0/8",
        "168.63.129.16/32",  # metadata of another cloud
        "169.254.0.0/16",  # link-local; metadata of most clouds
        "172.16.0.0/12",
        "192.0.0.0/24",
        "192.0.2.0/24",
        "192.88.99.0/24",  # 6to4 relays
        "192.168.0.0/16",
        "198.18.0.0/15",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "224.0.0.0/4",  # multicast
        "240.0.0.0/4",
    )
]
_PUBLIC_6 = IPv6Network("2000::/3")
_NOT_PUBLIC_6 = [
    IPv6Network(each)
    for each in ("2001::/23", "2001:db8::/32", "3fff::/20")  # Teredo is in the first
]
_NAT64 = IPv6Network("64:ff9b::/96")
_GUARDED_4 = [
    IPv4Network(each) for each in ("169.254.0.0/16", "100.100.100.200/32", "168.63.129.16/32")
]
_GUARDED_6 = [IPv6Network(each) for each in ("fe80::/10", "fd00:ec2::254/128")]


def is_guarded(address: str) -> bool:
    """Whether an address is link-local or a cloud's metadata server: no name may lead there."""
    match _reached(address):
        case IPv4Address() as v4:
            return any(v4 in network for network in _GUARDED_4)
        case IPv6Address() as v6:
            return any(v6 in network for network in _GUARDED_6)
        case None:
            return True


def is_literal(host: str) -> bool:
    """Whether a host is an address in its canonical form."""
    try:
        return str(ip_address(host)) == host
    except ValueError:
        return False


def is_public(address: str) -> bool:
    """Whether an address is public, also the IPv4 address that an IPv6 one maps."""
    match _reached(address):
        case IPv4Address() as v4:
            return not any(v4 in network for network in _NOT_PUBLIC_4)
        case IPv6Address() as v6:
            return v6 in _PUBLIC_6 and not any(v6 in network for network in _NOT_PUBLIC_6)
        case None:
            return False


def _reached(address: str) -> IPv4Address | IPv6Address | None:
    """Return the address that a request would reach; None for text that is not an address."""
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return None
    return parsed if isinstance(parsed, IPv4Address) else _inside(parsed) or parsed


def _inside(address: IPv6Address) -> IPv4Address | None:
    """Return the IPv4 address inside a mapped, 6to4 or NAT64 address."""
    if address in _NAT64:
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour
