"""Which hosts are this machine itself, as their names say it: nothing is resolved."""

from __future__ import annotations

from ipaddress import IPv6Address, ip_address


def is_loopback(host: str) -> bool:
    """localhost and the names below it (RFC 6761), 127.0.0.0/8, also as mapped to IPv6, and ::1.

    The gateway decides by it where it listens and who may ask without keys. So 0.0.0.0 and :: are none: to listen
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
