"""The Levels page `/`, and `/go`, which finds a symbol.

The URL contains all choices of the view, so every choice is a link or a form.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast, get_args
from urllib.parse import quote, urlencode

from starlette.responses import Response

from outcry.access.licences import Scope
from outcry.answers.scanning import ScanRow
from outcry.answers.selection import utc_date
from outcry.base.errors import UnknownSymbol
from outcry.web.levels.scan import COLUMNS, GROUPS, Row, Unit, row_of, sorted_rows
from outcry.web.page_context import NotSignedIn, Page, PageContext, PageRequest
from outcry.web.status_labels import KINDS, NAMES, StatusLabel, status_label

ORDERS = ("nearest", "symbol", "state")
#: Labels of the universe's groups, in display order.
SECTORS: Mapping[str, str] = {
    "index": "Equity", "rates": "Rates", "energy": "Energy", "metals": "Metals", "fx": "FX", "grains": "Grains",
    "livestock": "Livestock", "crypto": "Crypto", "perpetuals": "Perpetuals",
}  # fmt: skip
COLUMN_NAMES: Mapping[str, str] = {
    "vah": "VAH", "poc": "POC", "val": "VAL", "ib_high": "High", "ib_low": "Low", "on_high": "High", "on_low": "Low",
    "prior_vah": "VAH", "prior_poc": "POC", "prior_val": "VAL", "naked_above": "Above", "naked_below": "Below",
}  # fmt: skip
#: Labels beside a single number.
LABELS: Mapping[str, str] = {
    "vah": "dVAH", "poc": "dPOC", "val": "dVAL", "ib_high": "IBH", "ib_low": "IBL", "on_high": "ONH", "on_low": "ONL",
    "prior_vah": "pVAH", "prior_poc": "pPOC", "prior_val": "pVAL", "naked_above": "nPOC ↑", "naked_below": "nPOC ↓",
}  # fmt: skip
GROUP_NAMES: Mapping[str, str] = {
    "developing": "Developing", "ib": "IB", "overnight": "Overnight", "prior": "Prior", "naked": "Naked POC",
}  # fmt: skip
UNIT_NAMES: Mapping[str, str] = {"ticks": "Ticks", "points": "Points", "adr": "% ADR"}
#: Shorter than on the symbol page, which also lists the votes.
BIASES: Mapping[str, str] = {
    "trend_up": "Trend up", "trend_down": "Trend down", "lean_up": "Leaning up", "lean_down": "Leaning down",
    "balanced": "Balanced", "neutral": "Neutral", "undetermined": "Undecided",
}  # fmt: skip
ORDER_NAMES: Mapping[str, str] = {"nearest": "Nearest level", "symbol": "Symbol", "state": "State"}


@dataclass(frozen=True, slots=True)
class View:
    """The filters, order and unit chosen on the Levels page. An empty filter means all."""

    units: Unit = "ticks"
    sector: str = ""
    state: str = ""
    sort: str = "nearest"
    q: str = ""

    @classmethod
    def of(cls, query: Mapping[str, str], sectors: Collection[str]) -> "View":
        """Read the view from a URL's query; invalid values are ignored. sectors: those of all products."""

        def one(name: str, allowed: Collection[str], usual: str) -> str:
            return query[name] if query.get(name) in allowed else usual

        units = cast("Unit", one("units", get_args(Unit), "ticks"))
        text = "".join(letter for letter in query.get("q", "") if letter.isprintable()).strip()[:40]
        return cls(
            units,
            one("sector", sectors, ""),
            one("state", KINDS, ""),
            one("sort", ORDERS, "nearest"),
            text,
        )

    def href(self, **changed: str) -> str:
        """Return the URL of this view after applying changes."""
        now = {
            "units": self.units,
            "sector": self.sector,
            "state": self.state,
            "sort": self.sort,
            "q": self.q,
        } | changed
        parameters = {name: value for name, value in now.items() if value and (name, value) not in _USUAL}
        return f"/?{urlencode(parameters)}" if parameters else "/"

    def shows(self, row: Row) -> bool:
        """Whether a product's row passes the filters."""
        symbol, wanted = row.symbol, self.q.casefold()
        names = (symbol.symbol, symbol.name, symbol.contract or "", *symbol.micro)
        return (
            self.sector in {"", symbol.sector}
            and self.state in {"", row.state.kind}
            and (not wanted or any(wanted in name.casefold() for name in names))
        )


_USUAL = {("units", "ticks"), ("sort", "nearest")}


async def show(context: PageContext, request: PageRequest) -> Response:
    """Show the Levels page (`GET /`)."""
    if request.scope is None:
        raise NotSignedIn
    sectors = {product.sector for product in context.services.universe.products.values()}
    view = View.of(request.http.query_params, sectors)
    rows = await context.ask(gather, context, request, request.scope, view)
    return context.page(request, "levels/page.html", **_values(request, view, rows))


def gather(context: PageContext, request: PageRequest, scope: Scope, view: View) -> list[Row]:
    """Return the rows of all products on the Levels page, in the order of the service's product list."""
    now_ns = context.services.market_clock.now_ns()
    scanned = context.services.query.scan(scope, now_ns)
    language, year = request.words.language, utc_date(now_ns).year
    return [
        row_of(each, _state(context, request, each, now_ns), view.units, language, year) for each in scanned
    ]


def _state(context: PageContext, request: PageRequest, scanned: ScanRow, now_ns: int) -> StatusLabel:
    symbol, levels = scanned.state, scanned.levels
    opens_ns = None
    if symbol.state == "closed":
        opens_ns = context.services.hours.at(symbol.symbol, now_ns).opens_ns
    return status_label(
        request.words, symbol.state, updated_at=(levels.updated_at if levels else None) or scanned.last_data_at,
        as_of=symbol.as_of,
        now_ns=now_ns, opens_ns=opens_ns, zone=symbol.time_zone, held=symbol.data_source is not None,
    )  # fmt: skip


def _values(request: PageRequest, view: View, rows: Sequence[Row]) -> dict[str, Any]:
    words = request.words
    shown = sorted_rows((row for row in rows if view.shows(row)), view.sort)
    counts = Counter(row.state.kind for row in rows)
    return {
        "view": view,
        "rows": shown,
        "nothing": all(row.reference is None for row in rows),
        "all_count": len(rows),
        "counts": [(kind, counts[kind], words(NAMES[kind])) for kind in KINDS if counts[kind]],
        "units": [
            (view.href(units=name), words(text), view.units == name) for name, text in UNIT_NAMES.items()
        ],
        "sectors": [
            (view.href(sector=""), words("All"), not view.sector),
            *(
                (view.href(sector=name), words(text), view.sector == name)
                for name, text in _held(rows).items()
            ),
        ],
        "orders": [(name, words(text)) for name, text in ORDER_NAMES.items()],
        "groups": [
            (words(GROUP_NAMES[group]), [(column, words(COLUMN_NAMES[column])) for column in columns])
            for group, columns in GROUPS.items()
        ],
        "columns": COLUMNS,
        "labels": LABELS,
        "starts": [columns[0] for columns in GROUPS.values()],
        "names": {
            column: f"{words(GROUP_NAMES[group])} {words(COLUMN_NAMES[column])}"
            for group, columns in GROUPS.items()
            for column in columns
        },
        "biases": {code: words(text) for code, text in BIASES.items()},
        "invented": any(row.symbol.invented for row in rows),
    }


def _held(rows: Sequence[Row]) -> dict[str, str]:
    """Return the sectors that have at least one row, mapped to their displayed names.

    A sector of the operator's own products has its name in the table.
    """
    held = dict.fromkeys(row.symbol.sector for row in rows)
    return {name: text for name, text in SECTORS.items() if name in held} | {
        name: name for name in held if name not in SECTORS
    }


async def go(context: PageContext, request: PageRequest) -> Response:
    """Redirect to the page of the requested symbol (`GET /go`).

    If the symbol is missing or unknown, show a search form.
    """
    if request.scope is None:
        raise NotSignedIn
    asked = request.http.query_params.get("symbol", "").strip()[:64]
    query, now_ns = context.services.query, context.services.market_clock.now_ns()
    symbols = (await context.ask(query.symbols, request.scope, now_ns)).answer.symbols
    suggestions: Sequence[str] = ()
    if asked:
        exact = [each.symbol for each in symbols if each.name.casefold() == asked.casefold()]
        try:
            await context.ask(query.watch, request.scope, exact[0] if exact else asked, now_ns)
            return context.to(request, f"/s/{quote(exact[0] if exact else asked, safe='')}")
        except UnknownSymbol as unknown:
            suggestions = cast("Sequence[str]", unknown.details.get("suggestions", ()))
    named = [each for each in symbols if asked and asked.casefold() in each.name.casefold()]
    return context.page(
        request, "levels/go.html", 404 if asked else 200, asked=asked, symbols=symbols,
        suggestions=[*suggestions, *(each.symbol for each in named if each.symbol not in suggestions)],
    )  # fmt: skip


PAGES: Sequence[Page] = (("/", ("GET",), show), ("/go", ("GET",), go))
