"""Check the host name by which a browser reached this service.

An attacker's name can resolve to this service (DNS rebinding). A request with such a name gets no pages, and no
endpoints that are reserved for this machine. An IP address cannot be misused in this way.
"""

import re
from urllib.parse import urlsplit

from outcry.base.host_names import is_ip_address, is_loopback_name

_HOST = re.compile(r"[0-9A-Za-z._\-]+(:[0-9]{1,5})?|\[[0-9A-Fa-f:.]+\](:[0-9]{1,5})?", re.ASCII)


def host_name(header: str) -> str:
    """Return the name in a `Host` header, in lower case; empty if the header is invalid.

    Frameworks replace an invalid name by the IP address on which they listen. A request with an invalid name would then
    seem to come from this machine.
    """
    try:
        found = urlsplit(f"//{header}")
        readable = _HOST.fullmatch(header) is not None and (found.port is None or found.port > 0)
    except ValueError:  # an invalid port or IPv6 address
        return ""
    return (found.hostname or "").lower() if readable else ""


def is_own_host(name: str, public_url: str) -> bool:
    """Return whether a host name is this machine, an IP address, or the host of `public_url`."""
    public = urlsplit(public_url).hostname if public_url else None
    return is_loopback_name(name) or is_ip_address(name) or (public is not None and name == public.lower())
