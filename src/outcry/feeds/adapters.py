"""All vendors and brokers with an adapter, in the order in which the pages show them.

The list needs no vendor library: an adapter loads its library when it creates a feed.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from importlib import import_module
from importlib.util import find_spec

from outcry.connections.broker_adapter import BrokerAdapter

_PACKAGES = ("databento", "ibkr", "tastytrade", "tradovate", "projectx", "massive")


@cache
def adapters() -> Mapping[str, BrokerAdapter]:
    """Return adapters by broker id. `broker.installed` is set to whether the adapter's library is installed."""
    found: dict[str, BrokerAdapter] = {}
    for name in _PACKAGES:
        adapter: BrokerAdapter = import_module(f"outcry.feeds.{name}.adapter").ADAPTER
        installed = not adapter.library or find_spec(adapter.library) is not None
        adapter.broker = replace(adapter.broker, installed=installed)
        found[adapter.broker.id] = adapter
    return found
