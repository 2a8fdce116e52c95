"""The port for a person's own broker feeds: which brokers there are, and what each connection does.

Rules kept: credentials go in and never come out; a connection's owner alone sees it. Adapters give `Broker`s; the pages
know no adapter.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

#: Products one connection may bring.
MAX_ROOTS = 24


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
    """Something a broker needs to be told. `secret`: never shown again; `options`: what may be chosen; `usual`: what it
    is unless told; `optional`: it may be empty. `label` and `hint` are English, to be worded in the reader's language.
    """

    name: str
    label: str
    secret: bool = False
    options: tuple[str, ...] = ()
    usual: str = ""
    optional: bool = False
    hint: str = ""


@dataclass(frozen=True, slots=True)
class Broker:
    """A broker or vendor there is an adapter for. `hosted`: may be connected from a server; else only through the agent
    on the user's own machine, or by a service that runs there (the setting `local_brokers`). `extra`: what has to be
    installed for it, as `pip install outcry[…]` names it, empty where nothing has. `installed`: whether it is."""

    id: str
    name: str
    fields: tuple[BrokerField, ...]
    hosted: bool
    extra: str = ""
    installed: bool = True


@dataclass(frozen=True, slots=True)
class ConnectionRow:
    """A connection as its owner sees it. `code`: why it stands so, a stable code; `since_ns`: since when; `symbols`:
    roots it is to bring. `hint`: the end of its newest secret, by which its owner tells it from others."""

    id: int
    user_id: int
    broker: str
    label: str
    phase: ConnectionPhase
    code: str
    since_ns: int
    symbols: tuple[str, ...]
    hint: str = ""


class CheckStep(StrEnum):
    """What a check looks at, in this order."""

    SIGN_IN = "sign_in"  # the vendor is reached, and takes the entries
    SUBSCRIBED = "subscribed"  # it sends this contract
    HISTORY = "history"  # it sends what was traded before
    LIVE = "live"  # what it sends is of now


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing a check looked at. `contract`: its key, empty for what is of the whole connection. `passed`: None where
    it could not be tried. `code`: `ok`, or what is missing, as in `ConnectionRow.code`; for history also the quality it
    comes in (`ticks`, `bars_1s`, `bars_1m`, `none`)."""

    step: CheckStep
    contract: str
    passed: bool | None
    code: str


class Connections(Protocol):
    """A person's connections. All methods may raise `StoreBusy`; all but `check` block."""

    def brokers(self) -> Sequence[Broker]:
        """Those that can be connected by this service, and those only an agent can connect (`Broker.hosted`)."""
        ...

    def connectable(self, broker: Broker) -> bool:
        """Whether this service itself may connect it: installed, and not one that forbids servers."""
        ...

    def connections(self, user_id: int) -> Sequence[ConnectionRow]:
        """A user's, oldest first."""
        ...

    def counts(self) -> Mapping[ConnectionPhase, int]:
        """How many connections of all users stand in each phase, for the operator; what is pushed is none of them."""
        ...

    def connect(
        self,
        user_id: int,
        broker: str,
        label: str,
        given: Mapping[str, str],
        roots: Sequence[str],
        now_ns: int,
    ) -> int:
        """Begin a connection that brings these products; return its id. Raises `ConnectionRefused`."""
        ...

    def renew(self, user_id: int, connection_id: int, given: Mapping[str, str], now_ns: int) -> bool:
        """Give a connection other entries, all of them, and try again. Raises `ConnectionRefused`; False where the user
        has none of this id."""
        ...

    def choose(self, user_id: int, connection_id: int, roots: Sequence[str], label: str) -> bool:
        """Have it bring other products, under another name. Raises `ConnectionRefused`; False where there is none."""
        ...

    def pause(self, user_id: int, connection_id: int, now_ns: int) -> bool:
        """Have it rest until told; False where there is none."""
        ...

    def resume(self, user_id: int, connection_id: int, now_ns: int) -> bool:
        """Have it try again, from whatever it rests or has failed in; False where there is none. Raises
        `ConnectionRefused`."""
        ...

    def disconnect(self, user_id: int, connection_id: int, now_ns: int) -> bool:
        """End one of this user's and destroy its credentials; what it brought stays the user's own. False where it is
        none of them."""
        ...

    async def check(self, user_id: int, connection_id: int) -> Sequence[Finding] | None:
        """Look at what works and what is missing, within half a minute; None where there is none. A connection that
        runs is looked at as it runs; one that does not is tried aside."""
        ...


class ConnectionRefused(Exception):
    """A connection cannot be begun: `code` says why, `field` which entry is at fault, if one is.

    Codes: `unknown_broker`, `invented` (the demonstration, where nobody connects anything), `not_hosted`,
    `not_installed`, `already_connected`, `missing`, `rejected`, `too_many`, `roots` (none chosen, too many, or one
    there is not), `pushed` (an agent sends a feed of this name already), `too_soon` (begun, renewed or resumed so often
    within an hour that the vendor may lock this service out)."""

    def __init__(self, code: str, field: str = "") -> None:
        super().__init__(code)
        self.code, self.field = code, field


@dataclass(frozen=True, slots=True)
class SealedEntries:
    """The entries of a connection as kept: `sealed` under a key of its own, which `wrapped` is under the key-encryption
    key `kid`. `version` counts renewals and is bound into both."""

    connection_id: int
    kid: str
    wrapped: bytes
    sealed: bytes
    version: int


class ConnectionStore(Protocol):
    """Connections as kept. A move of phase is written only where the row is still in the phase it was moved from.
    All methods may raise `StoreBusy`."""

    def rows(self, user_id: int | None = None) -> Sequence[ConnectionRow]:
        """A user's connections, or those of everybody whose account is not disabled, oldest first."""
        ...

    def add(self, row: ConnectionRow, seal: "EntrySealer", now_ns: int) -> int:
        """Keep a connection (`row.id` is 0) with the entries that `seal` makes of its id and version 1; return the id.
        Raises `ConnectionRefused` `already_connected` where the user has one of this broker."""
        ...

    def move(
        self, connection_id: int, old: ConnectionPhase, new: ConnectionPhase, code: str, now_ns: int, *,
        anew: bool = False,
    ) -> bool:  # fmt: skip
        """Move a connection on; False where it is no longer in `old`. `since_ns` moves with the phase or the code, and
        always where it is to begin `anew`, by which whoever runs it knows that a person has asked."""
        ...

    def change(self, connection_id: int, roots: Sequence[str], label: str) -> bool:
        """Other products, another name."""
        ...

    def renew(self, connection_id: int, hint: str, seal: "EntrySealer") -> bool:
        """Replace the entries, under the next version."""
        ...

    def entries(self, connection_id: int) -> SealedEntries | None:
        """The entries of a connection, sealed."""
        ...

    def remove(self, connection_id: int) -> bool:
        """Forget a connection and its entries: they are overwritten, not only unlinked."""
        ...


class EntrySealer(Protocol):
    """Seals entries for a place that is known only as they are kept."""

    def __call__(self, connection_id: int, version: int) -> SealedEntries:
        """The entries, bound to connection and version."""
        ...
