"""Patterns of hosts: `[scheme://]host[:port]`."""

from collections.abc import Callable, Iterable
from typing import Self

from msgspec import Struct

from penstock.core.late import late

_PORTS = {"http": 80, "https": 443}
ANY_HOST = "*"


class Endpoint(Struct, frozen=True):
    """Where a request goes."""

    scheme: str
    host: str
    """In ASCII and lower case, without brackets, as DNS is asked for it."""
    port: int

    def __str__(self) -> str:
        """Return it as an origin, with no port where it is the scheme's own."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        port = "" if self.port == _PORTS.get(self.scheme) else f":{self.port}"
        return f"{self.scheme}://{host}{port}"

    @property
    def pattern(self) -> str:
        """Return the shortest pattern that allows it."""
        return str(self).removeprefix("https://")


class HostPattern(Struct, frozen=True):
    """Which places are allowed."""

    scheme: str
    host: str
    """A name; `*.` and a name for all below it, at any depth; `*` for any public host."""
    port: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a pattern. Raises ValueError."""
        scheme, found, rest = text.rpartition("://")
        scheme = scheme.lower() if found else "https"
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
        """Whether it says more than that any host will do."""
        return self.host != ANY_HOST

    def allows(self, place: Endpoint) -> bool:
        """Whether the place is one of these."""
        if (self.scheme, self.port) != (place.scheme, place.port):
            return False
        if self.host.startswith("*."):
            return place.host.endswith(self.host[1:]) and place.host != self.host[1:]
        return self.host in {ANY_HOST, place.host}


def place_of(scheme: str, host: str, port: int | None) -> Endpoint:
    """Return the place that the parts of a URL name. Raises ValueError for no name of a host."""
    return Endpoint(scheme, _plain(host), port or _PORTS[scheme])


def read_patterns(texts: Iterable[str]) -> tuple[HostPattern, ...]:
    """Return the patterns. Raises ValueError."""
    return tuple(map(HostPattern.parse, texts))


def read_private(texts: Iterable[str]) -> frozenset[str]:
    """Return entries `host:port` as places are compared with them. Raises ValueError."""
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
    """Return the one spelling of a host; what makes international ones is loaded for them."""
    name = host.lower().strip("[]")
    if not name.isascii():
        ascii_name: Callable[[str], str] = late("penstock.resources.international:ascii_name")
        name = ascii_name(name)
    return name.removesuffix(".")
