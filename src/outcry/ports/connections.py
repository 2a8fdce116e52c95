"""The port for a person's own broker feeds: which brokers there are, and what each connection does.

Rules kept: credentials go in and never come out; a connection's owner alone sees it. Adapters give `Broker`s; the pages
know no adapter.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol


class ConnectionPhase(StrEnum):
    """Where a connection stands, as its owner sees it."""

    CONNECTING = "connecting"
    CATCHING_UP = "catching_up"
    LIVE = "live"
    DEGRADED = "degraded"
    NEEDS_SIGN_IN = "needs_sign_in"
    FAILED = "failed"
    PAUSED = "paused"


@dataclass(frozen=True, slots=True)
class BrokerField:
    """Something a broker needs to be told. `secret`: never shown again; `options`: what may be chosen."""

    name: str
    label: str
    secret: bool = False
    options: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Broker:
    """A broker or vendor there is an adapter for. `hosted`: may be connected from a server; else only through the agent
    on the user's own machine."""

    id: str
    name: str
    fields: tuple[BrokerField, ...]
    hosted: bool


@dataclass(frozen=True, slots=True)
class ConnectionRow:
    """A connection as its owner sees it. `code`: why it stands so, a stable code; `since_ns`: since when; `symbols`:
    roots it brings."""

    id: int
    user_id: int
    broker: str
    label: str
    phase: ConnectionPhase
    code: str
    since_ns: int
    symbols: tuple[str, ...]


class Connections(Protocol):
    """A person's connections."""

    def brokers(self) -> Sequence[Broker]:
        """Those that can be connected by this service."""
        ...

    def connections(self, user_id: int) -> Sequence[ConnectionRow]:
        """A user's, oldest first."""
        ...

    def connect(self, user_id: int, broker: str, label: str, given: Mapping[str, str], now_ns: int) -> int:
        """Begin a connection; return its id. Raises `ConnectionRefused`."""
        ...

    def disconnect(self, user_id: int, connection_id: int, now_ns: int) -> bool:
        """End one of this user's; what it brought stays the user's own. False where it is none of them."""
        ...


class ConnectionRefused(Exception):
    """A connection cannot be begun: `code` says why, `field` which entry is at fault, if one is."""

    def __init__(self, code: str, field: str = "") -> None:
        super().__init__(code)
        self.code, self.field = code, field
