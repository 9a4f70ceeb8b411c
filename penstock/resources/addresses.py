"""Which addresses are of the public network, and which reach machines around this one."""

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

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
    """Whether the address is link-local, or that of a cloud's metadata: no name may lead there."""
    match _meant(address):
        case IPv4Address() as old:
            return any(old in network for network in _GUARDED_4)
        case IPv6Address() as new:
            return any(new in network for network in _GUARDED_6)
        case None:
            return True


def is_literal(host: str) -> bool:
    """Whether a host is written as an address, in its usual form."""
    try:
        return str(ip_address(host)) == host
    except ValueError:
        return False


def is_public(address: str) -> bool:
    """Whether the address is of the public network, also that which a mapped one stands for."""
    match _meant(address):
        case IPv4Address() as old:
            return not any(old in network for network in _NOT_PUBLIC_4)
        case IPv6Address() as new:
            return new in _PUBLIC_6 and not any(new in network for network in _NOT_PUBLIC_6)
        case None:
            return False


def _meant(address: str) -> IPv4Address | IPv6Address | None:
    """Return the address that a request would reach; None for a text that is none."""
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return None
    return parsed if isinstance(parsed, IPv4Address) else _inside(parsed) or parsed


def _inside(address: IPv6Address) -> IPv4Address | None:
    """Return the IPv4 address that a mapped, 6to4 or NAT64 address leads to."""
    if address in _NAT64:
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour
