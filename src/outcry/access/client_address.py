"""Who counts as one client of those known by their address only.

Rule kept: a subscriber has one address of IPv4, but at least 2**64 of IPv6: those count as one.
"""

import ipaddress

UNKNOWN = "unknown"
_LONGEST = 64


def network(address: str) -> str:
    """The name one client is counted under; what is no address stands for itself."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return address[:_LONGEST] or UNKNOWN
    if isinstance(found, ipaddress.IPv4Address):
        return str(found)
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return str(ipaddress.ip_network((int(found), 64), strict=False))
