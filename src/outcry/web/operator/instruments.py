"""The operator's pages of instruments: `/operator/instruments`.

They show all products with their source, add examples, and edit the operator's own tables. All tables are edited in one
form, because a product needs a row in several of them. The check is that of `outcry instruments check`. Saving needs a
recent confirmation of identity, and changes all tables or none.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path

from starlette.responses import Response

from outcry.market.hours import DayRow, HoursRow, days_text, windows_text
from outcry.market.instruments import Product
from outcry.market.reference_rows import BadReference
from outcry.market.units import NANOS_PER_SECOND, price_text
from outcry.people.audit import Event
from outcry.sessions.instrument_tables import StoredCheck
from outcry.sessions.product_units import ChangedUnit, UnitsChanged
from outcry.sessions.stored_hours import OutdatedSessions
from outcry.trades.example_tables import CannotAdd, examples, header_of
from outcry.trades.own_tables import (
    INSTRUMENTS_FOLDER,
    PRODUCTS,
    TABLES,
    OwnTables,
    TablesChanged,
    TablesInUse,
)
from outcry.trades.reference_tables import Reference
from outcry.web.dates import day_text
from outcry.web.form_input import Faults, Form, FormRefused
from outcry.web.form_state import delete_typed, done_code, prove_first, restore_typed
from outcry.web.language import Words, later
from outcry.web.page_context import NotConfirmed, NotProved, Page, PageContext, PageMissing, PageRequest
from outcry.web.sign_in_flow import origin_of

INSTRUMENTS = "/operator/instruments"
EDIT = f"{INSTRUMENTS}/edit"
#: Maximum size of the form with all tables. Our own holidays of sixteen years are 60 kB.
MAX_FORM_BYTES = 2 * 1024 * 1024
_NEXT_HOLIDAYS = 12
_TITLES: Mapping[str, str] = {
    "products.csv": later("Products"),
    "sessions.csv": later("Trading hours"),
    "holidays.csv": later("Holidays"),
    "activity.csv": later("Minimum activity"),
}
_COLUMN = later("%(file)s, row %(row)s, column %(column)s:")
_ROW = later("%(file)s, row %(row)s:")
_UNITS: Mapping[str, str] = {
    "tick": later(
        "The tick of %(root)s is %(now)s, but its stored data was recorded with %(stored)s. Set it back. To change it, "
        "edit the file with a text editor, stop the service and run “outcry refold”."
    ),
    "size_step": later(
        "The size step of %(root)s is %(now)s, but its stored data was recorded with %(stored)s. Set it back. To "
        "change it, first remove all data of %(root)s with “outcry import --forget”, or use a new data folder."
    ),
}


@dataclass(frozen=True, slots=True)
class Listed:
    """A product as the list shows it. own: names of what the operator's tables define; empty if all data is ours."""

    product: Product
    tick: str
    size_step: str
    own: str


@dataclass(frozen=True, slots=True)
class Invalid:
    """An invalid row. `place`: file, row and column in words. `problem`: in English, as the command prints it."""

    place: str
    problem: str


@dataclass(frozen=True, slots=True)
class Outdated:
    """The stored sessions of a product that a change affects, with dates as text."""

    sessions: OutdatedSessions
    first: str
    last: str


@dataclass(frozen=True, slots=True)
class Table:
    """One of the operator's tables in the form. current: its text now, if the form was based on another version."""

    file: str
    title: str
    text: str
    rows: int
    current: str = ""

    @property
    def entry(self) -> str:
        """Name of the form entry with the text."""
        return _entry(self.file)


@dataclass(frozen=True, slots=True)
class Checked:
    """The result of a check that found no invalid row. own: symbols of the products to which own tables apply."""

    own: str
    outdated: Sequence[Outdated]


async def show_instruments(context: PageContext, request: PageRequest) -> Response:
    """List all products with their source, the examples, and the state of the operator's tables."""
    return await _list(context, request, {})


async def _list(context: PageContext, request: PageRequest, faults: Faults) -> Response:
    context.operator(request)
    tables, invalid, found = context.services.tables, None, StoredCheck()
    reference, running, rows = tables.running, False, dict[str, int]()
    try:
        own = await context.ask(tables.read)
        rows = {name: _row_count(own, name) for name in TABLES}
        running = tables.is_running(own)
        reference, found = await context.ask(tables.check)
    except BadReference as problem:
        invalid = _invalid(request.words, problem)
    products = reference.universe.products
    kept = restore_typed(context, request, INSTRUMENTS)
    page = context.page(
        request,
        "operator/instruments.html",
        422 if faults else 200,
        products=sorted(
            (_listed(request.words, each) for each in products.values()), key=lambda each: not each.own
        ),
        tables=[(name, request.words(_TITLES[name]), rows.get(name, 0)) for name in TABLES],
        examples={
            root: f"{each.name} ({each.exchange})"
            for root, each in examples().items()
            if root not in products or PRODUCTS not in products[root].own_tables
        },
        folder=str(tables.folder / INSTRUMENTS_FOLDER),
        invalid=invalid,
        running=running,
        changed=[_unit(request.words, one) for one in found.changed],
        outdated=_outdated(request, found),
        clustered=context.services.clustered,
        chosen=kept.get("examples", ""),
        faults=faults,
        done=done_code(request),
    )
    return delete_typed(request, page)


async def show_product(context: PageContext, request: PageRequest) -> Response:
    """Show one product: its columns, its hours now in force and its next holidays, each with its source."""
    context.operator(request)
    tables = context.services.tables
    try:
        reference, _ = await context.ask(tables.check)
    except BadReference:
        reference = tables.running
    product = reference.universe.products.get(str(request.http.path_params["root"]))
    if product is None:
        raise PageMissing
    today = datetime.fromtimestamp(context.now_ns() // NANOS_PER_SECOND, UTC).date()
    hours = reference.calendar.hours
    days = islice(hours.special_days(product.root, today), _NEXT_HOLIDAYS)
    own = str(tables.folder)
    return context.page(
        request,
        "operator/instrument.html",
        listed=_listed(request.words, product),
        hours=[_hours_line(row, own) for row in hours.rows_on(product.root, today)],
        days=[(day_text(request, day.day), _day_line(day), day, _is_own(day.table, own)) for day in days],
        ends=max(hours.known_years(product.root), default=None),
    )


async def add_examples(context: PageContext, request: PageRequest) -> Response:
    """Add example products to the operator's tables, from a submitted form."""
    context.sender(request)
    form = await context.form(request)
    chosen = form.joined("examples")
    try:
        operator = context.operator(request)
        context.confirmed(request)
    except NotProved:
        return prove_first(context, request, INSTRUMENTS, {"examples": chosen})
    words, roots = request.words, tuple(dict.fromkeys(chosen.split()))
    if not roots or not set(roots) <= examples().keys():
        return await _list(context, request, {"examples": words("Choose examples from the list.")})
    try:
        _, files, _ = await context.ask(context.services.tables.add_examples, roots)
    except CannotAdd:
        return await _list(context, request, {"examples": words("Your tables already have this product.")})
    except BadReference as problem:
        invalid = _invalid(words, problem)
        return await _list(context, request, {"examples": f"{invalid.place} {invalid.problem}"})
    except UnitsChanged as problem:
        return await _list(context, request, {"examples": _unit(words, problem.changed[0])})
    except (TablesChanged, TablesInUse):
        return await _list(context, request, {"examples": _in_use(words)})
    except OSError as problem:
        return await _list(context, request, {"examples": _not_written(words, problem)})
    await context.ask(
        context.services.identity.note, operator, Event.INSTRUMENTS_CHANGED, origin_of(request),
        files=" ".join(files), symbols=" ".join(roots),
    )  # fmt: skip
    return context.to(request, f"{INSTRUMENTS}?done=added")


# -- the form with all tables


async def edit_tables(context: PageContext, request: PageRequest) -> Response:
    """Show the operator's tables in a form."""
    context.operator(request)
    own, fault = await _own_tables(context, request)
    return _form(context, request, own, {}, faults={"": fault} if fault else {})


async def change_tables(context: PageContext, request: PageRequest) -> Response:
    """Check the tables of a submitted form, and save them if that was asked for."""
    context.sender(request)
    form = await context.form(request, MAX_FORM_BYTES)
    try:
        operator = context.operator(request)
    except NotProved:
        return prove_first(context, request, EDIT, {})
    action, based_on = form.text("action"), form.text("version")
    if action not in {"check", "save"}:
        raise FormRefused
    tables, words = context.services.tables, request.words
    own, fault = await _own_tables(context, request)
    texts = _typed(form, own)
    if fault:
        return _form(context, request, own, texts, based_on, faults={"": fault})
    changes = {name: text for name, text in texts.items() if text != own.texts.get(name, "")}
    try:
        reference, found = await context.ask(tables.check_change, changes, based_on)
        if action == "check":
            return _form(context, request, own, texts, based_on, checked=_checked(request, reference, found))
        context.confirmed(request)
        if changes:
            await context.ask(tables.save, changes, based_on)
    except BadReference as problem:
        return _form(context, request, own, texts, based_on, invalid=problem)
    except UnitsChanged as problem:
        faults = {_entry(PRODUCTS): " ".join(_unit(words, one) for one in problem.changed)}
        return _form(context, request, own, texts, based_on, faults=faults)
    except TablesChanged:
        own, _ = await _own_tables(context, request)
        return _form(context, request, own, texts, own.version, overtaken=True)
    except NotConfirmed:
        return _form(context, request, own, texts, based_on, unconfirmed=True)
    except TablesInUse:
        return _form(context, request, own, texts, based_on, faults={"": _in_use(words)})
    except OSError as problem:
        return _form(context, request, own, texts, based_on, faults={"": _not_written(words, problem)})
    if changes:
        await context.ask(
            context.services.identity.note, operator, Event.INSTRUMENTS_CHANGED, origin_of(request),
            files=" ".join(changes),
        )  # fmt: skip
    return context.to(request, f"{INSTRUMENTS}?done=saved")


def _form(
    context: PageContext, request: PageRequest, own: OwnTables, texts: Mapping[str, str], based_on: str = "",
    *, invalid: BadReference | None = None, checked: Checked | None = None, faults: Faults | None = None,
    overtaken: bool = False, unconfirmed: bool = False,
) -> Response:  # fmt: skip
    """Return the page with the form. texts: as typed; without it the form has the current texts.

    overtaken: whether the tables were changed since the form was opened, so that nothing was saved.
    """
    words, faults = request.words, dict(faults or {})
    if invalid is not None:
        at = _invalid(words, invalid)
        file = Path(invalid.file).name
        faults[_entry(file) if file in TABLES else ""] = f"{at.place} {at.problem}"
    shown = [
        Table(
            name, words(_TITLES[name]), text, max(6, min(20, text.count("\n") + 2)),
            current if overtaken and text != current else "",
        )
        for name in TABLES
        for current in [own.texts.get(name) or header_of(name) + "\n"]
        for text in [texts.get(name, current)]
    ]  # fmt: skip
    failed = bool(faults) or overtaken or unconfirmed
    return context.page(
        request, "operator/tables.html", 422 if failed else 200, tables=shown, based_on=based_on or own.version,
        folder=str(context.services.tables.folder / INSTRUMENTS_FOLDER), checked=checked, faults=faults,
        overtaken=overtaken, unconfirmed=unconfirmed, clustered=context.services.clustered,
    )  # fmt: skip


async def _own_tables(context: PageContext, request: PageRequest) -> tuple[OwnTables, str]:
    """Return the operator's tables, or none with the reason why they cannot be read."""
    try:
        return await context.ask(context.services.tables.read), ""
    except BadReference as problem:
        at = _invalid(request.words, problem)
        return OwnTables({}), f"{at.place} {at.problem}"


def _typed(form: Form, own: OwnTables) -> dict[str, str]:
    """Return the submitted texts, with the line breaks of the files. A new table that has only its header is left out.

    Browsers submit every line break as CR LF.
    """
    texts: dict[str, str] = {}
    for name in TABLES:
        if _entry(name) not in form:
            continue
        current = own.texts.get(name, "")
        end = "\r\n" if "\r\n" in current else "\n"
        lines = form.raw(_entry(name)).replace("\r\n", "\n").replace("\r", "\n").rstrip("\n").split("\n")
        text = end.join(lines) + end
        if current and _same_lines(text, current):
            text = current
        if current or text.strip() not in {"", header_of(name)}:
            texts[name] = text
    return texts


def _same_lines(one: str, other: str) -> bool:
    """Return whether two texts have the same rows, whatever blank lines and byte order mark they have."""
    rows = [
        [line for line in text.removeprefix("\ufeff").splitlines() if line.strip()] for text in (one, other)
    ]
    return rows[0] == rows[1]


def _entry(file: str) -> str:
    return file.removesuffix(".csv")


def _row_count(own: OwnTables, name: str) -> int:
    return max(0, sum(bool(line.strip()) for line in own.texts.get(name, "").splitlines()) - 1)


# -- words


def _invalid(words: Words, problem: BadReference) -> Invalid:
    place = {"file": Path(problem.file).name, "row": problem.row, "column": problem.column}
    return Invalid(words(_COLUMN if problem.column else _ROW, **place), problem.problem)


def _unit(words: Words, one: ChangedUnit) -> str:
    return words(_UNITS[one.column], root=one.root, now=one.now, stored=one.stored)


def _in_use(words: Words) -> str:
    return words("Somebody else is changing the tables. Nothing was saved. Try again.")


def _not_written(words: Words, problem: OSError) -> str:
    return words("The tables cannot be written: %(problem)s", problem=problem.strerror or str(problem))


def _checked(request: PageRequest, reference: Reference, found: StoredCheck) -> Checked:
    own = " ".join(root for root, each in reference.universe.products.items() if each.own_tables)
    return Checked(own, _outdated(request, found))


def _outdated(request: PageRequest, found: StoredCheck) -> list[Outdated]:
    return [
        Outdated(one, day_text(request, one.first), day_text(request, one.last)) for one in found.outdated
    ]


def _listed(words: Words, product: Product) -> Listed:
    own = ", ".join(words(_TITLES[name]) for name in product.own_tables)
    return Listed(product, price_text(product.tick_e9), price_text(product.size_step_e9), own)


def _hours_line(row: HoursRow, own: str) -> tuple[HoursRow, str, str, str, bool]:
    trading = windows_text(row.globex) if row.globex else ""
    return row, days_text(row.days), trading, windows_text((row.rth,)), _is_own(row.table, own)


def _day_line(day: DayRow) -> str:
    times = {
        "opens": day.opens,
        "closes": day.closes,
        "rth_opens": day.rth_opens,
        "rth_closes": day.rth_closes,
    }
    return " ".join([day.kind.value, *(f"{name} {at:%H:%M}" for name, at in times.items() if at)])


def _is_own(table: str, folder: str) -> bool:
    """Return whether a file is one of the operator's own tables. Ours have no folder."""
    return table.startswith(folder)


PAGES: Sequence[Page] = (
    (INSTRUMENTS, ("GET",), show_instruments),
    (f"{INSTRUMENTS}/examples", ("POST",), add_examples),
    (EDIT, ("GET",), edit_tables),
    (EDIT, ("POST",), change_tables),
    (f"{INSTRUMENTS}/products/{{root}}", ("GET",), show_product),
)
