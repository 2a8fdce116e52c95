"""Validate the feed tables of the agent's configuration file, and create the feeds.

An error names the number of the table and the remedy. It never repeats the value, which may be a secret.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from outcry.base.clock import Clock
from outcry.base.extras import MissingExtra
from outcry.connections.broker_adapter import AdapterContext, BrokerAdapter, InvalidCredential
from outcry.connections.contract_selection import contract_selector
from outcry.connections.model import MAX_ROOTS
from outcry.market.instruments import Universe, UnknownName
from outcry.market.units import NANOS_PER_SECOND
from outcry.recordings.file_model import FileRefused
from outcry.trades.feed import Feed
from outcry.trades.push_format import is_feed_name

#: Fields of every feed table, in addition to its broker's fields.
_OURS = frozenset({"broker", "symbols", "name", "places"})


class BadConfig(Exception):
    """The agent's configuration file is invalid. The message names the place in the file and the remedy."""


@dataclass(frozen=True, slots=True)
class Planned:
    """A feed from the configuration file.

    name: the feed's name in the service. label: its name in the file. make: creates the feed.
    """

    name: str
    label: str
    make: Callable[[], Feed]


@dataclass(frozen=True, slots=True)
class Means:
    """What is needed to create the feeds of the configuration file, such as adapters and a clock."""

    universe: Universe
    clock: Clock
    adapters: Callable[[], Mapping[str, BrokerAdapter]]


def planned(number: int, table: dict[str, Any], folder: Path, means: Means) -> Planned:
    """Validate one feed table of the configuration file (`[[feed]]`) and return its feed. Raises `BadConfig`."""
    if ("broker" in table) == ("scid" in table):
        raise BadConfig(f'feed {number}: Set either broker = "…" or scid = "…".')
    if "scid" in table:
        return _file(number, table, folder, means)
    return _broker(number, table, means)


def _file(number: int, table: dict[str, Any], folder: Path, means: Means) -> Planned:
    from outcry.feeds.scid_tail import tail_of  # noqa: PLC0415 - imports the file readers

    if unknown := sorted(set(table) - {"scid", "name"}):
        raise BadConfig(
            f"feed {number}: Unknown field {unknown[0]}. A Sierra Chart file has the fields scid and name."
        )
    path = folder / Path(str(table["scid"])).expanduser()
    today = datetime.fromtimestamp(means.clock.now_ns() // NANOS_PER_SECOND, UTC).date()

    def make() -> Feed:
        return tail_of(path, means.universe, means.clock, today)

    try:
        name = _name(number, table, make().name)
    except FileRefused as problem:
        raise BadConfig(f"feed {number}: {problem}") from None
    return Planned(name, path.name, make)


def _broker(number: int, table: dict[str, Any], means: Means) -> Planned:
    known = means.adapters()
    adapter = known.get(str(table["broker"]))
    if adapter is None:
        raise BadConfig(f"feed {number}: Unknown broker. Use one of {', '.join(known)}.")
    broker = adapter.broker
    if not broker.installed:
        raise BadConfig(f"feed {number}: {MissingExtra(broker.name, broker.extra)}")
    name = _name(number, table, broker.id)
    given = _given(number, table, adapter)
    context = AdapterContext(
        means.universe,
        means.clock,
        contract_selector(means.universe, _roots(number, table, means.universe), means.clock),
        _places(number, table),
    )  # fmt: skip

    def make() -> Feed:
        try:
            return adapter.feed(given, context)
        except InvalidCredential as problem:
            raise BadConfig(_wrong_entry(number, adapter, problem)) from None

    make()  # raises for invalid values before the agent starts
    return Planned(name, broker.name, make)


def _name(number: int, table: dict[str, Any], usual: str) -> str:
    name = str(table.get("name", usual))
    if not is_feed_name(name):
        raise BadConfig(
            f"feed {number}: Invalid name. Use up to 24 lower-case letters, digits, - and _, starting with a letter. "
            "Device names of Windows, such as aux, are not allowed."
        )
    return name


def _given(number: int, table: dict[str, Any], adapter: BrokerAdapter) -> dict[str, str]:
    fields = {field.name: field for field in adapter.broker.fields}
    unknown = sorted(set(table) - _OURS - set(fields))
    if unknown:
        raise BadConfig(
            f"feed {number}: Unknown field {unknown[0]}. {adapter.broker.name} has the fields "
            f"{', '.join(sorted(fields))}."
        )
    given: dict[str, str] = {}
    for name, field in fields.items():
        value = table.get(name, field.usual)
        if not isinstance(value, str | int) or isinstance(value, bool):
            raise BadConfig(f'feed {number}: {name} must be a text in quotes, {name} = "…".')
        given[name] = str(value)
        if not given[name] and not field.optional:
            raise BadConfig(
                f"feed {number}: {name} is missing. Set it to: {field.label}. {field.hint}".rstrip()
            )
        if field.options and given[name] and given[name] not in field.options:
            raise BadConfig(f"feed {number}: Invalid {name}. Use one of {', '.join(field.options)}.")
    return given


def _wrong_entry(number: int, adapter: BrokerAdapter, problem: InvalidCredential) -> str:
    hints = {field.name: f"{field.label}. {field.hint}" for field in adapter.broker.fields}
    what = "is missing" if problem.code == "missing" else "is invalid"
    return f"feed {number}: {problem.field} {what}. {hints.get(problem.field, '')}".rstrip()


def _roots(number: int, table: dict[str, Any], universe: Universe) -> tuple[str, ...]:
    symbols: Any = table.get("symbols")
    if not isinstance(symbols, list) or not symbols:
        raise BadConfig(f'feed {number}: symbols must be a list such as ["ES", "NQ"].')
    roots: list[str] = []
    for symbol in symbols:  # pyright: ignore[reportUnknownVariableType] - as TOML has it
        root = str(symbol).upper()
        if root not in universe.products:
            raise BadConfig(f"feed {number}: Unknown product {root[:12]!r}. {_like(universe, root)}")
        roots.append(root)
    if len(set(roots)) > MAX_ROOTS:
        raise BadConfig(
            f"feed {number}: {len(set(roots))} symbols, but a feed has at most {MAX_ROOTS}. Add another feed."
        )
    return tuple(dict.fromkeys(roots))


def _like(universe: Universe, root: str) -> str:
    try:
        universe.resolve(root, datetime(2026, 1, 2, tzinfo=UTC).date())
    except UnknownName as problem:
        return (
            f"Similar: {', '.join(problem.suggestions)}."
            if problem.suggestions
            else "Use a symbol such as ES."
        )
    return "Use the symbol of the full-size contract, such as ES."


def _places(number: int, table: dict[str, Any]) -> dict[str, str]:
    places: Any = table.get("places", {})
    if not isinstance(places, dict) or not all(isinstance(at, str) for at in places.values()):
        raise BadConfig(
            f'feed {number}: places must be a table of addresses, such as {{gateway = "10.0.0.5:13000"}}.'
        )
    return {str(name): str(at) for name, at in places.items()}


def refuse_twins(feeds: tuple[Planned, ...], tables: list[dict[str, Any]]) -> None:
    """Reject two feeds of the same name, whose data would be mixed. Raises `BadConfig`.

    Sierra Chart files may share a name, because each contains a different contract.
    """
    seen: set[str] = set()
    for number, (feed, table) in enumerate(zip(feeds, tables, strict=True), start=1):
        if feed.name in seen and "scid" not in table:
            raise BadConfig(
                f'feed {number}: The name {feed.name} is used twice. Give this feed another name = "…".'
            )
        seen.add(feed.name)


def holds_secrets(tables: list[dict[str, Any]], means: Means) -> bool:
    """Return whether any feed table has a secret field."""
    known = means.adapters() if any("broker" in table for table in tables) else {}
    return any(
        field.secret and field.name in table
        for table in tables
        if table.get("broker") in known
        for field in known[str(table["broker"])].broker.fields
    )
