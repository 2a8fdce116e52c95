"""Resolve host names of aiohttp clients by the operating system.

Deliveries of alerts need the library aiodns. If aiodns is installed, aiohttp uses it by default. But aiodns asks DNS
servers itself, in a thread that ends late. Connections to vendors and identity providers use the resolver of the
operating system instead, which also knows local names.
"""

import aiohttp


def system_resolution() -> aiohttp.TCPConnector:
    """Return a connector for one `aiohttp.ClientSession` that resolves names by the operating system."""
    return aiohttp.TCPConnector(resolver=aiohttp.ThreadedResolver())
