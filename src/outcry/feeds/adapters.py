"""Every vendor and broker there is an adapter for, in the order in which the pages show them.

Rule kept: the list needs no library of any vendor's; each adapter's module is light, and loads what it runs on when a
feed is made.
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
    """Adapters by the broker's id; `broker.installed` says whether what they run on is there."""
    found: dict[str, BrokerAdapter] = {}
    for name in _PACKAGES:
        adapter: BrokerAdapter = import_module(f"outcry.feeds.{name}.adapter").ADAPTER
        installed = not adapter.library or find_spec(adapter.library) is not None
        adapter.broker = replace(adapter.broker, installed=installed)
        found[adapter.broker.id] = adapter
    return found
