"""By which name a browser reached this service, and whether that is one of ours.

Rule kept: a stranger's name that is made to lead here (DNS rebinding) is given neither pages nor what only this machine
may read; a number cannot be made to lead elsewhere.
"""

import ipaddress
import re
from urllib.parse import urlsplit

_HOST = re.compile(r"[0-9A-Za-z._\-]+(:[0-9]{1,5})?|\[[0-9A-Fa-f:.]+\](:[0-9]{1,5})?", re.ASCII)


def host_name(header: str) -> str:
    """The name in a `Host` header, in lower case; empty where it is none. What cannot be read is no name: a framework
    would put in its place the address it listens on, which is this machine's."""
    try:
        found = urlsplit(f"//{header}")
        readable = _HOST.fullmatch(header) is not None and (found.port is None or found.port > 0)
    except ValueError:  # a port or an IPv6 address that is none
        return ""
    return (found.hostname or "").lower() if readable else ""


def is_ip_address(name: str) -> bool:
    """Whether it is an address rather than a name."""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def is_loopback_name(name: str) -> bool:
    """Whether it can mean nothing but the machine it is typed on."""
    if name == "localhost" or name.endswith(".localhost"):
        return True
    return is_ip_address(name) and ipaddress.ip_address(name).is_loopback


def is_own_host(name: str, public_url: str) -> bool:
    """Whether it is this machine, a number, or the name of `public_url`."""
    public = urlsplit(public_url).hostname if public_url else None
    return is_loopback_name(name) or is_ip_address(name) or (public is not None and name == public.lower())
