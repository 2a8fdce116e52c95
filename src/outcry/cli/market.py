"""`outcry serve --market hyperliquid`: a free live market for one user, without an account at a vendor.

The market has its own data folder with tables of its instruments. The first start shows the vendor's terms, reads tick
and size step of the instruments from the vendor, and creates a user with a key and a connection. The data belongs to
that user, so no other user sees it. Later starts continue; the connection can be paused or removed on its page.
"""

import asyncio
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from outcry.app.installation import Installation, open_installation
from outcry.app.settings import BadSettings, Settings
from outcry.base.clock import SystemClock
from outcry.cli.demo import Serving
from outcry.cli.set_up import set_up_notice
from outcry.cli.whereabouts import address, market_folder
from outcry.connections.model import ConnectionPhase, ConnectionRefused, ConnectionRow
from outcry.connections.store import SqlConnectionStore
from outcry.feeds.hyperliquid import terms
from outcry.feeds.hyperliquid.adapter import ADAPTER, EXCHANGE, TERMS
from outcry.market.units import NANOS_PER_SECOND
from outcry.people.email_address import is_email
from outcry.people.store import SqlIdentityStore
from outcry.trades.feed import FeedLost
from outcry.trades.own_tables import INSTRUMENTS_FOLDER, PRODUCTS, read_own_tables, replace_tables

if TYPE_CHECKING:
    from outcry.app.people import People

#: Email address of the market's user, if the first start names no other.
EMAIL = "me@localhost.localdomain"
_BROKER = ADAPTER.broker.id


class TermsNotAccepted(BadSettings):
    """The user has not accepted the vendor's terms."""


def market_settings(settings: Settings, *, chosen: bool) -> Settings:
    """Return settings with the market's own data folder, unless the user chose one."""
    return settings if chosen else msgspec.structs.replace(settings, data=str(market_folder(settings.folder)))


@contextmanager
def open_market(settings: Settings, owner: str, *, accepted: bool) -> Generator[Serving]:
    """Open the market's folder and prepare it at the first start.

    owner: email address of the user to whom the data belongs; empty for `EMAIL`. accepted: whether the user accepted
    the terms on the command line. Raises `TermsNotAccepted`, `BadSettings` if the vendor cannot be read, and the errors
    of `open_installation`.
    """
    if owner and not is_email(owner):
        raise BadSettings(f"Invalid --owner {owner[:60]!r}: use an email address.")
    consent = Consent(accepted=accepted)
    write_instruments(settings, consent)
    with open_installation(settings) as installation, installation.log.exclusively():
        key = _connect(installation, owner or EMAIL, consent)
        yield Serving(installation, [], partial(_greet, installation, key))


class Consent:
    """The user's consent to the vendor's terms. It is asked for once, when it is first needed."""

    def __init__(self, *, accepted: bool) -> None:
        self._accepted = accepted
        self._shown = False

    def require(self) -> None:
        """Show the terms, and ask on a terminal. Raises `TermsNotAccepted`."""
        if self._shown:
            return
        self._shown = True
        print(terms.SUMMARY, file=sys.stderr, flush=True)
        if not self._accepted:
            if not sys.stdin.isatty():
                raise TermsNotAccepted("Not a terminal: pass --accept-terms if you accept these terms.")
            print("Do you accept these terms? [y/N] ", end="", file=sys.stderr, flush=True)
            self._accepted = sys.stdin.readline().strip().lower() in {"y", "yes"}
        if not self._accepted:
            raise TermsNotAccepted("The terms were not accepted. Outcry has not connected to Hyperliquid.")


def write_instruments(settings: Settings, consent: Consent) -> None:
    """Write the tables of the market's instruments, unless the folder has them. Raises `BadSettings`."""
    own = read_own_tables(settings.folder).texts
    if PRODUCTS in own:
        if EXCHANGE not in own[PRODUCTS]:
            raise BadSettings(
                f"{settings.folder / INSTRUMENTS_FOLDER / PRODUCTS} has other instruments. Choose another folder with "
                f"--data, or add products of the exchange {EXCHANGE} (docs/guides/free-market.md)."
            )
        return
    from outcry.feeds.hyperliquid.instruments import read_listed, tables  # noqa: PLC0415 - imports an HTTP client

    consent.require()
    clock = SystemClock()
    try:
        listed = asyncio.run(read_listed(clock, settings.feed_places.get(_BROKER, {}).get("api", "")))
    except FeedLost as problem:
        raise BadSettings(f"The instruments cannot be read: {problem}. Try again later.") from None
    today = datetime.fromtimestamp(clock.now_ns() // NANOS_PER_SECOND, UTC).date()
    settings.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    replace_tables(settings.folder, tables(listed, today))


def _connect(installation: Installation, owner: str, consent: Consent) -> str:
    """Make sure that the connection exists and the current terms are accepted; return a new key of a new connection.

    An existing connection stays as its user left it, for example paused.
    """
    store, now_ns = SqlConnectionStore(installation.database), installation.clock.now_ns()
    existing = [row for row in store.rows() if row.broker == _BROKER]
    entries = {TERMS: terms.VERSION}
    for row in existing:
        if not _is_accepted(installation, row):
            consent.require()
            store.renew(row.id, "", installation.vault.seal(row.user_id, _BROKER, entries))
            store.move(row.id, row.phase, ConnectionPhase.CONNECTING, "connecting", now_ns, restart=True)
    if existing:
        return ""
    consent.require()
    user_id = installation.store.ensure_user(owner, now_ns)
    roots = tuple(roots_of(installation))
    row = ConnectionRow(
        0, user_id, _BROKER, ADAPTER.broker.name, ConnectionPhase.CONNECTING, "connecting", now_ns, roots
    )
    try:
        store.add(row, installation.vault.seal(user_id, _BROKER, entries), now_ns)
    except ConnectionRefused:  # `rows` leaves out the connections of disabled users
        raise BadSettings(f"The user {owner} is disabled. Choose another with --owner.") from None
    return installation.keys.create(owner, "pro", now_ns)


def _is_accepted(installation: Installation, row: ConnectionRow) -> bool:
    sealed = SqlConnectionStore(installation.database).entries(row.id)
    return sealed is not None and installation.vault.open(row, sealed).get(TERMS) == terms.VERSION


def accepted_by(installation: Installation) -> str:
    """Return the email address of the user whose connection has the current terms; empty if there is none."""
    rows = [row for row in SqlConnectionStore(installation.database).rows() if row.broker == _BROKER]
    return _owner(installation) if rows and _is_accepted(installation, rows[0]) else ""


def roots_of(installation: Installation) -> Iterator[str]:
    """Yield the products of the market, such as `BTC-PERP`."""
    for root, product in installation.reference.universe.products.items():
        if ADAPTER.broker.offers(product):
            yield root


def _owner(installation: Installation) -> str:
    """Return the email address of the user whose connection this is; of several, the first."""
    row = next(row for row in SqlConnectionStore(installation.database).rows() if row.broker == _BROKER)
    user = SqlIdentityStore(installation.database).user(row.user_id)
    assert user is not None  # a connection refers to its user
    return user.email


def _greet(installation: Installation, key: str, host: str, port: int, people: "People") -> None:
    at = address(host, port)
    if notice := set_up_notice(installation.settings.folder, people.first_run, at):
        owner = f"Use the email address {_owner(installation)}, to which the data of the market belongs."
        print(f"{notice}{owner}", file=sys.stderr, flush=True)
    roots = tuple(roots_of(installation))
    print(
        f"Live market of Hyperliquid at {at} (data folder: {installation.settings.folder})\n"
        f"The data is for the user who accepted the terms ({terms.URL}). Not advice.",
        flush=True,
    )
    if key:
        print(f'key: {key}\ncurl -H "x-api-key: {key}" "{at}/api/levels?symbol={roots[0]}"', flush=True)
    print(f"Symbols: {', '.join(roots)}", flush=True)
