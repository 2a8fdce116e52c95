"""Brokers, and users' connections to them with the state of each.

Users can enter credentials but not read them back. Only its owner sees a connection. Each adapter describes its broker
as a `Broker`, so the pages need no adapter.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from outcry.market.instruments import Product

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

    `secret`: not shown after it was entered. `options`: allowed values. `usual`: the default value. `optional`: may be
    empty. `label` and `hint` are English; the pages translate them.
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

    `hosted`: a service on a server may connect the broker. Otherwise only the agent on the user's own machine may, or a
    service that runs there (setting `local_brokers`). `extra`: the extra to install (`install_command`), empty if
    none is needed. `installed`: whether it is installed. `exchange`: the exchange of the products that it offers; empty
    if it offers those of several exchanges.
    """

    id: str
    name: str
    fields: tuple[BrokerField, ...]
    hosted: bool
    extra: str = ""
    installed: bool = True
    exchange: str = ""

    def offers(self, product: Product) -> bool:
        """Return whether the broker may have a product."""
        return not self.exchange or product.exchange == self.exchange


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

    `sealed`: the credentials, encrypted with the connection's own key. `wrapped`: that key, encrypted with the
    key-encryption key named `kid`. `version`: increases each time the user replaces the credentials; both ciphertexts
    are valid for one version only.
    """

    connection_id: int
    kid: str
    wrapped: bytes
    sealed: bytes
    version: int


#: Encrypts credentials and binds them to the id and version given, which are known only when they are stored.
EntrySealer = Callable[[int, int], SealedEntries]


@dataclass(frozen=True, slots=True)
class VaultKeyRow:
    """What the database stores of a key-encryption key. `canary`: ciphertext that only the right key decrypts."""

    kid: str
    canary: bytes
    made_ns: int
    retired_ns: int | None
