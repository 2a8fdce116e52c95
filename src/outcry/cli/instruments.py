"""`outcry instruments …`: the products, and the operator's own tables of them (`instruments/` of the data folder)."""

import sys
from collections.abc import Generator, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import UTC, date, datetime
from itertools import islice

from cyclopts import App

from outcry.app.inspection import TAPE_FOLDER, NoInstallation, check_installed, inspect_installation
from outcry.app.installation import LOG_FOLDER
from outcry.app.settings import Settings, read_settings
from outcry.base.clock import SystemClock
from outcry.cli.columns import INSTRUMENT, INSTRUMENTS, OWN_INSTRUMENTS
from outcry.cli.tables import Cell, Output, print_rows
from outcry.live.log_files import names_in
from outcry.market.calendar import Calendar
from outcry.market.hours import days_text, windows_text
from outcry.market.instruments import Product, UnknownName
from outcry.market.units import NANOS_PER_SECOND, price_text
from outcry.sessions.instrument_tables import InstrumentTables, StoredCheck
from outcry.sessions.product_units import UnitsChanged
from outcry.trades.example_tables import CannotAdd, examples, with_examples
from outcry.trades.own_tables import INSTRUMENTS_FOLDER, replace_tables
from outcry.trades.reference_tables import Reference, load_reference

_PACKAGED, _EXAMPLE = "packaged", "example"
#: What a row of each own table replaces, if the package has the product.
_REPLACED = {"products.csv": "product", "sessions.csv": "hours", "holidays.csv": "days"}
_MOST_DAYS = 5

instruments = App(
    name="instruments", help="List, add and check products: their ticks, contracts, hours and holidays."
)


@instruments.command(name="list")
def list_instruments(*, own: bool = False, output: Output = None, data: str | None = None) -> int:
    """List products: root, name, exchange, zone, tick, size step, months, origin.

    The origin is `packaged`, or the names of your own tables that have rows for the product.

    Parameters
    ----------
    own
        List only products to which your own tables apply.
    data
        Data folder. Default: OUTCRY_DATA.
    """
    products = _reference(read_settings(data=data)).universe.products.values()
    print_rows(INSTRUMENTS, (_row(each) for each in products if each.own_tables or not own), output)
    return 0


@instruments.command
def show(symbol: str, *, output: Output = None, data: str | None = None) -> int:
    """Show one product: all its columns, the hours now in force, the next holidays, and their sources.

    Parameters
    ----------
    symbol
        Product or contract, in any symbol format: ES, ESZ6, /MES
    data
        Data folder. Default: OUTCRY_DATA.
    """
    reference = _reference(read_settings(data=data))
    today = _today()
    try:
        product = reference.universe.resolve(symbol, today, history=True).product
    except UnknownName as problem:
        return _refuse(f"{problem}. To list all products, run `outcry instruments list`.")
    print_rows(INSTRUMENT, _fields(product, reference.calendar, today), output)
    return 0


@instruments.command
def add(*names: str, output: Output = None, data: str | None = None) -> int:
    """Copy example products, with their hours and holidays, to your own tables. Without names, list the examples.

    Existing rows are kept. A product that your tables already have is refused. If the tables would not fit together,
    nothing is written. The examples are from general knowledge: compare them with the specification of your exchange.

        outcry instruments add FESX NIFTY

    Parameters
    ----------
    names
        Roots of examples, such as FESX. Omit them to list all examples.
    data
        Data folder. Default: OUTCRY_DATA.
    """
    if not names:
        print_rows(INSTRUMENTS, (_row(each, _EXAMPLE) for each in examples().values()), output)
        return 0
    settings = read_settings(data=data)
    roots = tuple(dict.fromkeys(name.upper() for name in names))
    try:
        with _open_check(settings) as tables:
            if tables is None:
                reference, drafts, based_on = with_examples(
                    settings.folder, roots, variants=settings.session_variants
                )
                replace_tables(settings.folder, drafts, based_on)
                written, found = tuple(drafts), StoredCheck()
            else:
                reference, written, found = tables.add_examples(roots)
    except (CannotAdd, UnitsChanged) as problem:
        return _refuse(f"{problem} Nothing was changed.")
    print_rows(INSTRUMENTS, (_row(reference.universe.products[root]) for root in roots), output)
    for name in written:
        print(f"Written: {settings.folder / INSTRUMENTS_FOLDER / name}", file=sys.stderr)
    print(
        "The values are from general knowledge. Compare them with the specification of your exchange and correct the "
        "tables. Then run `outcry instruments check`, and restart `outcry serve`.",
        file=sys.stderr,
    )
    _warn(found)
    return 0


@instruments.command
def check(data: str | None = None, *, output: Output = None) -> int:
    """Check your own tables and list the products they apply to: root, own tables, what they replace of ours.

    An invalid row is reported with file, row, column and reason, and the exit status is 1. So is a tick or size step
    that differs from stored data. A warning counts the stored sessions that were computed with other hours.

    Parameters
    ----------
    data
        Data folder with `instruments/`. Default: OUTCRY_DATA.
    """
    settings = read_settings(data=data)
    if data is not None and not settings.folder.is_dir():
        return _refuse(f"Data folder {settings.folder} does not exist.")
    reference, packaged = _reference(settings), load_reference().universe.products
    own = {root: each for root, each in reference.universe.products.items() if each.own_tables}
    print_rows(
        OWN_INSTRUMENTS,
        ((root, " ".join(each.own_tables), _replaced(each, packaged)) for root, each in own.items()),
        output,
    )
    if not own:
        print(
            f"No product in {settings.folder / INSTRUMENTS_FOLDER}. To start with an example, run `outcry instruments "
            "add`.",
            file=sys.stderr,
        )
    with _open_check(settings) as tables:
        found = tables.check()[1] if tables else StoredCheck()
    _warn(found)
    return _refuse_changed(found)


def _reference(settings: Settings) -> Reference:
    return load_reference(settings.folder, variants=settings.session_variants)


def _today() -> date:
    return datetime.fromtimestamp(SystemClock().now_ns() // NANOS_PER_SECOND, UTC).date()


def _refuse(problem: str) -> int:
    print(f"outcry instruments: {problem}", file=sys.stderr)
    return 1


def _row(product: Product, origin: str | None = None) -> tuple[Cell, ...]:
    return (
        product.root, product.name, product.exchange, product.zone, price_text(product.tick_e9),
        price_text(product.size_step_e9), product.months or None,
        origin or " ".join(product.own_tables) or _PACKAGED,
    )  # fmt: skip


def _replaced(product: Product, packaged: Mapping[str, Product]) -> str | None:
    """Return what own tables replace of a packaged product; None for a product of the operator's own."""
    if product.root not in packaged:
        return None
    return " ".join(_REPLACED[table] for table in product.own_tables)


def _fields(product: Product, calendar: Calendar, today: date) -> Iterator[tuple[str, Cell]]:
    """Yield the name and value of each column, then a row for each row of hours and each of the next holidays."""
    yield from zip(INSTRUMENTS, _row(product), strict=True)
    yield from {
        "sector": product.sector,
        "parent": product.parent,
        "multiplier": price_text(product.multiplier_e9),
        "unit": product.unit,
        "serial": product.serial or None,
        "skipped": product.skipped or None,
        "settle": product.settle or None,
        "expiry_rule": product.expiry_rule or None,
        "notice_rule": product.notice_rule or None,
        "roll_sessions": product.roll_sessions if product.is_dated else None,
        "projectx": product.projectx or None,
        "aliases": " ".join(product.aliases) or None,
        "activity": " ".join(map(str, product.activity)),
        "source": product.source,
        "checked_on": str(product.checked_on) if product.checked_on else None,
        "note": product.note or None,
        "file": product.table,
    }.items()
    for row in calendar.hours.rows_on(product.root, today):
        name = f"hours {row.variant} {days_text(row.days)}" if row.variant else f"hours {days_text(row.days)}"
        trading = f"{windows_text(row.globex)}, " if row.globex else ""
        yield (
            name,
            f"{trading}regular {windows_text((row.rth,))} ({row.source}, {row.checked_on}; {row.table})",
        )
    for day in islice(calendar.hours.special_days(product.root, today), _MOST_DAYS):
        times = {
            "opens": day.opens, "closes": day.closes, "rth_opens": day.rth_opens, "rth_closes": day.rth_closes
        }  # fmt: skip
        kind = " ".join([day.kind, *(f"{name} {at:%H:%M}" for name, at in times.items() if at)])
        yield f"holiday {day.day}", f"{day.name}: {kind} ({day.source}, {day.checked_on}; {day.table})"


def _open_check(settings: Settings) -> AbstractContextManager[InstrumentTables | None]:
    """Open the stored data for comparison; None if there is no database. Say so if there is other data."""
    try:
        check_installed(settings)
    except NoInstallation as problem:
        if (settings.folder / TAPE_FOLDER).is_dir():
            print(f"warning: Stored sessions were not compared. {problem}", file=sys.stderr)
        return nullcontext()
    return _opened(settings)


@contextmanager
def _opened(settings: Settings) -> Generator[InstrumentTables]:
    with inspect_installation(settings) as found:
        yield InstrumentTables(
            settings.folder, settings.session_variants, found.store, found.database, _reference(settings),
            lambda: names_in(settings.folder / LOG_FOLDER),
        )  # fmt: skip


def _warn(found: StoredCheck) -> None:
    """Name on standard error the stored sessions that were computed with other hours than those of the tables."""
    for one in found.outdated:
        sessions = "session" if one.count == 1 else "sessions"
        which = f"{one.count} stored {sessions} of {one.root} from {one.first} to {one.last}"
        if one.known:
            has = "has" if one.count == 1 else "have"
            print(
                f"warning: {which} {has} other hours than the tables. Stop the service and run `outcry refold`.",
                file=sys.stderr,
            )
        else:
            print(f"warning: No table has {one.root}, so {which} cannot be used.", file=sys.stderr)


def _refuse_changed(found: StoredCheck) -> int:
    """Name on standard error the ticks and size steps that differ from stored data. Return the exit status."""
    for one in found.changed:
        print(f"outcry instruments: {one.text}", file=sys.stderr)
    return 1 if found.changed else 0
