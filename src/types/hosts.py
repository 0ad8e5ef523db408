"""Which hosts are this machine itself, as their names say it: nothing is resolved."""

from __future__ import annotations

from ipaddress import IPv6Address, ip_address

from .lazy_pattern import LazyPattern

# Of a URL or a Host: an address in brackets, or a name, and a port. What follows a name otherwise may mislead.
_HOST = LazyPattern(r"(?:\[(?P<address>[^\]\[]*)\]|(?P<name>[A-Za-z0-9._-]+))(?::[0-9]*)?")


def read_host(text: str) -> str | None:
    """The name or address of a Host, without its port, as two of them can be compared; None: it is no Host.

    Example: "Gateway.Example.:443" gives "gateway.example", "[FD00:0::1]" gives "fd00::1".
    """
    match = _HOST.fullmatch(text)
    if match is None:
        return None
    if match["name"]:
        return match["name"].lower().rstrip(".") or None
    try:
        return str(ip_address(match["address"]))
    except ValueError:
        return None


def is_loopback(host: str) -> bool:
    """localhost and the names below it (RFC 6761), 127.0.0.0/8, also as mapped to IPv6, and ::1.

    The gateway decides by it where it listens and who may ask without keys. So 0.0.0.0 and :: do not count: to listen
    there is to listen on all addresses of the machine, and browsers let any site ask there.
    """
    try:
        address = ip_address(host)
    except ValueError:
        name = host.lower()
        return name == "localhost" or name.endswith(".localhost")
    if isinstance(address, IPv6Address) and address.ipv4_mapped:
        return address.ipv4_mapped.is_loopback
    return address.is_loopback


def leads_here(host: str) -> bool:
    """Whether a connection to it stays on this machine: as is_loopback, and 0.0.0.0 or ::, which vLLM says it is at."""
    try:
        return ip_address(host).is_unspecified or is_loopback(host)
    except ValueError:
        return is_loopback(host)
