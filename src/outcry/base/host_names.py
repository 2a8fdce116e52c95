"""Tell IP addresses and names of this machine from other host names."""

import ipaddress


def is_ip_address(name: str) -> bool:
    """Return whether a host name is an IP address."""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def is_loopback_name(name: str) -> bool:
    """Return whether a host name always means the machine itself."""
    if name == "localhost" or name.endswith(".localhost"):
        return True
    return is_ip_address(name) and ipaddress.ip_address(name).is_loopback
