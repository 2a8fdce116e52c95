"""All market data vendors and brokers that Outcry can connect to, in the order in which the web pages list them.

Each has an adapter, the code that creates its feeds. Importing this list needs no vendor library: an adapter loads its
library when it creates a feed.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from importlib import import_module
from importlib.util import find_spec

from outcry.connections.broker_adapter import BrokerAdapter

_PACKAGES = ("databento", "ibkr", "tastytrade", "tradovate", "projectx", "massive", "hyperliquid")


@cache
def adapters() -> Mapping[str, BrokerAdapter]:
    """Return the adapters of all vendors and brokers, by broker id.

    `broker.installed` of each adapter states whether the library that the adapter needs is installed.
    """
    found: dict[str, BrokerAdapter] = {}
    for name in _PACKAGES:
        adapter: BrokerAdapter = import_module(f"outcry.feeds.{name}.adapter").ADAPTER
        installed = not adapter.library or find_spec(adapter.library) is not None
        adapter.broker = replace(adapter.broker, installed=installed)
        found[adapter.broker.id] = adapter
    return found
