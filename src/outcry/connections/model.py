"""Interface of users' broker connections: the available brokers, and the state of each connection.

Credentials can be stored but not read back. Only its owner sees a connection. Adapters describe themselves as `Broker`,
so the pages need no adapter.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

#: Maximum number of products of one connection.
MAX_ROOTS = 24


class ConnectionPhase(StrEnum):
    """State of a connection as its owner sees it."""

    CONNECTING = "connecting"
    CATCHING_UP = "catching_up"
    LIVE = "live"
    DEGRADED = "degraded"
    NEEDS_SIGN_IN = "needs_sign_in"
    FAILED = "failed"
    PAUSED = "paused"


@dataclass(frozen=True, slots=True)
class BrokerField:
    """An entry that a broker's connection form asks for.

    `secret`: not shown after it was entered. `options`: allowed values. `usual`: the default. `optional`: may be empty.
    `label` and `hint` are English; the pages translate them.
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
    """A broker or vendor that Outcry can connect, that is, that has an adapter.

    `hosted`: a server may connect it. Otherwise only the agent on the user's own machine may, or a service that runs
    there (setting `local_brokers`). `extra`: the extra to install (`pip install outcry[…]`), empty if none is needed.
    `installed`: whether it is installed.
    """

    id: str
    name: str
    fields: tuple[BrokerField, ...]
    hosted: bool
    extra: str = ""
    installed: bool = True


@dataclass(frozen=True, slots=True)
class ConnectionRow:
    """A connection as its owner sees it.

    `code`: stable code of the reason for `phase`. `since_ns`: time of the last change (ns UTC). `symbols`: the chosen
    product roots. `hint`: the last characters of its newest secret, so that the owner can tell secrets apart.
    """

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
    """Steps of checking a connection, in the order they are done."""

    SIGN_IN = "sign_in"  # the vendor is reachable and accepts the credentials
    SUBSCRIBED = "subscribed"  # the vendor sends this contract
    HISTORY = "history"  # the vendor sends earlier trades
    LIVE = "live"  # what the vendor sends is current


@dataclass(frozen=True, slots=True)
class Finding:
    """Result of one step of checking a connection.

    `contract`: the contract's key, empty for the whole connection. `passed`: None if the step could not be tried.
    `code`: `ok`, or the fault as in `ConnectionRow.code`. For history it is the quality instead (`ticks`, `bars_1s`,
    `bars_1m`, `none`).
    """

    step: CheckStep
    contract: str
    passed: bool | None
    code: str


class Connections(Protocol):
    """Interface of users' broker connections. All methods may raise `StoreBusy`; all but `check` block."""

    def brokers(self) -> Sequence[Broker]:
        """Return all brokers, including those only an agent can connect (`Broker.hosted`)."""
        ...

    def connectable(self, broker: Broker) -> bool:
        """Return whether this service may connect a broker: it is installed and allows servers."""
        ...

    def connections(self, user_id: int) -> Sequence[ConnectionRow]:
        """Return a user's connections, oldest first."""
        ...

    def counts(self) -> Mapping[ConnectionPhase, int]:
        """Return the number of connections per phase over all users, without pushed feeds."""
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
        """Create a connection for these products and return its id. Raises `ConnectionRefused`."""
        ...

    def renew(self, user_id: int, connection_id: int, given: Mapping[str, str], now_ns: int) -> bool:
        """Replace all credentials of a connection and reconnect; return False if the user has no such connection.

        Raises `ConnectionRefused`.
        """
        ...

    def choose(self, user_id: int, connection_id: int, roots: Sequence[str], label: str) -> bool:
        """Change products and label; return False if there is no such connection. Raises `ConnectionRefused`."""
        ...

    def pause(self, user_id: int, connection_id: int, now_ns: int) -> bool:
        """Pause a connection until it is resumed; return False if there is no such connection."""
        ...

    def resume(self, user_id: int, connection_id: int, now_ns: int) -> bool:
        """Reconnect a paused or failed connection; return False if there is no such connection.

        Raises `ConnectionRefused`.
        """
        ...

    def disconnect(self, user_id: int, connection_id: int, now_ns: int) -> bool:
        """Remove a connection and its credentials, and keep the data it received.

        Returns False if the user has no such connection.
        """
        ...

    async def check(self, user_id: int, connection_id: int) -> Sequence[Finding] | None:
        """Check which parts of a connection work, within 30 s; return None if there is no such connection.

        A running connection is judged by its streams; for any other, a temporary feed is opened.
        """
        ...


class ConnectionRefused(Exception):
    """A connection cannot be created or changed. `code`: the reason; `field`: the invalid entry, if any.

    Codes: `unknown_broker`, `invented` (the demo connects no brokers), `not_hosted`, `not_installed`,
    `already_connected`, `missing`, `rejected`, `too_many`, `roots` (none, too many or an unknown product), `pushed` (an
    agent already sends a feed of this name), `too_soon` (so many attempts within an hour that the vendor may block this
    service).
    """

    def __init__(self, code: str, field: str = "") -> None:
        super().__init__(code)
        self.code, self.field = code, field


@dataclass(frozen=True, slots=True)
class SealedEntries:
    """Encrypted credentials of a connection as stored.

    `sealed`: ciphertext under the connection's own key. `wrapped`: that key, encrypted with key-encryption key `kid`.
    `version` counts renewals; both ciphertexts are bound to it.
    """

    connection_id: int
    kid: str
    wrapped: bytes
    sealed: bytes
    version: int


class ConnectionStore(Protocol):
    """Stored connections. A phase changes only if the row still has the old one. All methods may raise `StoreBusy`."""

    def rows(self, user_id: int | None = None) -> Sequence[ConnectionRow]:
        """Return a user's connections, or those of all enabled users, oldest first."""
        ...

    def add(self, row: ConnectionRow, seal: "EntrySealer", now_ns: int) -> int:
        """Store a connection (`row.id` is 0) with the credentials that `seal` encrypts for its id; return the id.

        Raises `ConnectionRefused` `already_connected` if the user has a connection to this broker.
        """
        ...

    def move(
        self, connection_id: int, old: ConnectionPhase, new: ConnectionPhase, code: str, now_ns: int, *,
        anew: bool = False,
    ) -> bool:  # fmt: skip
        """Change the phase and code of a connection; return False if the phase is no longer `old`.

        `since_ns` changes if phase or code do. With `anew` it always changes, which makes the supervisor restart the
        connection because its user asked for it.
        """
        ...

    def change(self, connection_id: int, roots: Sequence[str], label: str) -> bool:
        """Change products and label; return False if there is no such connection."""
        ...

    def renew(self, connection_id: int, hint: str, seal: "EntrySealer") -> bool:
        """Replace the credentials under the next version; return False if there is no such connection."""
        ...

    def entries(self, connection_id: int) -> SealedEntries | None:
        """Return the encrypted credentials of a connection; None if it has none."""
        ...

    def remove(self, connection_id: int) -> bool:
        """Delete a connection and overwrite its credentials; return False if there is no such connection."""
        ...


class EntrySealer(Protocol):
    """Function that encrypts credentials for a connection, whose id is known only when they are stored."""

    def __call__(self, connection_id: int, version: int) -> SealedEntries:
        """Return the credentials encrypted and bound to connection and version."""
        ...
