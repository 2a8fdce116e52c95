"""How aiohttp clients resolve host names.

aiohttp picks its resolver by what is installed: with aiodns, which deliveries need, it asks DNS servers itself, in a
thread that ends late. Connections to vendors and identity providers keep the resolver of the operating system, which
also knows local names.
"""

import aiohttp


def system_resolution() -> aiohttp.TCPConnector:
    """Return a connector for one `aiohttp.ClientSession` that resolves names by the operating system."""
    return aiohttp.TCPConnector(resolver=aiohttp.ThreadedResolver())
