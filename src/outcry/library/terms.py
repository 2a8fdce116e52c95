"""Turn the arguments of `outcry.profile` into a tick, a window and a trade date."""

import datetime as dt
from decimal import Decimal
from functools import lru_cache
from os import PathLike, fspath
from pathlib import Path
from typing import Any, NamedTuple

from outcry.library.errors import InvalidInput
from outcry.library.times import instant_of, span_text, trade_date_of
from outcry.market.instruments import Contract, Product, UnknownName
from outcry.market.profile_settings import SESSION_KINDS
from outcry.market.units import PRICE_SCALE, e9_from_text
from outcry.market.windows import Segment
from outcry.trades.own_tables import INSTRUMENTS_FOLDER, read_own_tables
from outcry.trades.reference_tables import BadReference, Reference, load_reference

_EITHER = "Give either tick_size and window, or symbol and date."


class Terms(NamedTuple):
    """What to compute: the tick (10⁻⁹) and the window's half-open segments (ns UTC).

    The other fields are None if the user gave tick_size and window. `contract`: the contract that the symbol names, if
    it names one.
    """

    tick_e9: int
    segments: tuple[Segment, ...]
    product: Product | None = None
    contract: Contract | None = None
    date: dt.date | None = None
    session: str | None = None

    @property
    def regular(self) -> bool:
        """Return whether the window may be a regular session, which has a day type."""
        return self.session in (None, "rth")

    @property
    def span(self) -> str:
        """Return the window as text."""
        return span_text(self.segments[0][0], self.segments[-1][1])


def reference_of(instruments: str | PathLike[str] | None) -> Reference:
    """Return the packaged products and calendar, with the user's own tables over them.

    instruments: a data folder with the folder `instruments/`, or that folder itself. Tables that changed are read
    again. Raises `InvalidInput` if the folder has no tables or an invalid row.
    """
    if instruments is None:
        return _reference(None, "")
    folder = Path(fspath(instruments)).expanduser().absolute()
    if folder.name == INSTRUMENTS_FOLDER and not (folder / INSTRUMENTS_FOLDER).is_dir():
        folder = folder.parent
    try:
        own = read_own_tables(folder)
        if not own.texts:
            raise InvalidInput(
                f"No tables of instruments in {folder / INSTRUMENTS_FOLDER}",
                "Give the data folder of your service, or a folder `instruments` with products.csv.",
            )
        return _reference(folder, own.version)
    except BadReference as problem:
        raise InvalidInput(str(problem), "Correct the row.") from problem


@lru_cache(8)
def _reference(folder: Path | None, _version: str) -> Reference:
    """Return the reference data of a folder. `_version`: of its own tables, so that changed tables are read again."""
    return load_reference(folder)


def terms_of(
    tick_size: float | str | Decimal | None,
    window: tuple[Any, Any] | None,
    symbol: str | None,
    day: str | dt.date | None,
    session: str,
    reference: Reference,
) -> Terms:
    """Return what to compute. The arguments are either tick size and window, or symbol and date."""
    if session not in SESSION_KINDS:
        raise InvalidInput(f"Unknown session {session!r}", f"Use one of {', '.join(SESSION_KINDS)}.")
    if tick_size is not None and window is not None and symbol is None and day is None:
        if session != "rth":
            raise InvalidInput(f"session={session!r} needs symbol and date, which select the hours", _EITHER)
        return _by_hand(tick_size, window)
    if symbol is None or day is None or tick_size is not None or window is not None:
        raise InvalidInput("Invalid arguments: give either tick_size and window, or symbol and date")
    when = trade_date_of(day)
    try:
        found = reference.universe.resolve(symbol, when, history=True)
    except UnknownName as problem:
        raise InvalidInput(str(problem), "Or give tick_size and window.") from problem
    parts = [reference.calendar.session(found.product.root, when, kind) for kind in SESSION_KINDS[session]]
    segments = tuple(segment for part in parts if part for segment in part.segments)
    if not segments:
        kind = "regular" if session == "rth" else session
        raise InvalidInput(
            f"{found.product.root} has no {kind} session on {when}", "Choose another trade date."
        )
    return Terms(found.product.tick_e9, segments, found.product, found.contract, when, session)


def size_step_e9(size_step: float | str | Decimal | None, product: Product | None) -> int:
    """Return the smallest size in 10⁻⁹: the user's, that of the symbol's product, or one contract."""
    if size_step is None:
        return product.size_step_e9 if product else PRICE_SCALE
    if product is not None:
        raise InvalidInput("size_step is given, but symbol decides the size step", _EITHER)
    return _positive_e9(size_step, "size_step", "0.001")


def _positive_e9(value: float | str | Decimal, name: str, example: str) -> int:
    try:
        found = e9_from_text(format(Decimal(str(value)), "f"))
    except (ValueError, ArithmeticError):
        found = 0
    if found <= 0:
        raise InvalidInput(f"Invalid {name} {value!r}", f"Give a positive number, such as {example}.")
    return found


def _by_hand(tick_size: float | str | Decimal, window: tuple[Any, Any]) -> Terms:
    tick_e9 = _positive_e9(tick_size, "tick_size", "0.25")
    try:
        first, last = window
    except (TypeError, ValueError):
        raise InvalidInput(f"Invalid window {window!r}", "Give its start and its end.") from None
    start, end = instant_of(first), instant_of(last)
    if start >= end:
        raise InvalidInput(
            f"Invalid window: it starts at or after its end ({span_text(start, end)})", "Swap the two times."
        )
    return Terms(tick_e9, ((start, end),))
