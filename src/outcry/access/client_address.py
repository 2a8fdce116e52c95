"""Group the network addresses of callers without a key into clients, to limit the requests of each client.

A subscriber has one IPv4 address, but a /64 network of IPv6 addresses. A /64 network therefore counts as one client.
"""

import ipaddress

UNKNOWN = "unknown"
_LONGEST = 64


def network(address: str) -> str:
    """Return the client that an address belongs to, as text: an IPv4 address or an IPv6 /64 network.

    Other text is returned as it is, but shortened.
    """
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return address[:_LONGEST] or UNKNOWN
    if isinstance(found, ipaddress.IPv4Address):
        return str(found)
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return str(ipaddress.ip_network((int(found), 64), strict=False))
