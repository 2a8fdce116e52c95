"""Downloads of a symbol's page: levels as CSV or JSON, profile as CSV.

Prices are plain decimals with a point, in every language. A cell that a spreadsheet would run as a formula is escaped.
"""

import csv
import io
import re
from collections.abc import Iterable, Iterator, Sequence

import msgspec
from starlette.responses import Response

from outcry.access.licences import Scope
from outcry.answers.charting import notation_of
from outcry.base.errors import InvalidParameter
from outcry.base.sizes import Size
from outcry.market.units import price_text
from outcry.web.number_format import lots_text, price_e9
from outcry.web.page_context import NotSignedIn, Page, PageContext, PageMissing, PageRequest
from outcry.wire.answers import LevelsAnswer
from outcry.wire.chart import Notation

_NUMBER = re.compile(r"[-+]?\d+(?:\.\d+)?")
_RISKY = ("=", "+", "-", "@", "\t", "\r", "|")


async def levels_json(context: PageContext, request: PageRequest) -> Response:
    """Return the response of `GET /api/levels`, byte for byte, as a download."""
    answer, _ = await context.ask(_levels, context, _scope(request), _symbol(request))
    return _sent(context, request, msgspec.json.encode(answer), "application/json")


async def levels_csv(context: PageContext, request: PageRequest) -> Response:
    """Return the levels as CSV, one level per line."""
    answer, notation = await context.ask(_levels, context, _scope(request), _symbol(request))
    rows = [("symbol", "as_of", "level", "price", "made_on"), *_level_rows(answer, notation)]
    return _sent(context, request, csv_bytes(rows), "text/csv; charset=utf-8")


async def profile_csv(context: PageContext, request: PageRequest) -> Response:
    """Return the rows of a session's profile as CSV, highest price first.

    The session is that of `date`, or the newest.
    """
    services = context.services
    date = request.http.query_params.get("date")
    now_ns = services.market_clock.now_ns()
    try:
        found = await context.ask(services.query.profile, _scope(request), _symbol(request), date, now_ns)
    except InvalidParameter:
        raise PageMissing from None  # no session at all
    profile = found.answer
    notation = notation_of(services.universe.products[profile.symbol])
    rows: list[Sequence[object]] = [("symbol", "date", "price", "letters", "tpos", "volume")]
    rows += [
        (
            profile.symbol,
            profile.levels.date,
            plain(row.price, notation),
            row.letters,
            row.tpos,
            plain_lots(row.volume),
        )
        for row in profile.rows
    ]
    return _sent(context, request, csv_bytes(rows), "text/csv; charset=utf-8")


def csv_bytes(rows: Iterable[Sequence[object]]) -> bytes:
    """Return rows as CSV (RFC 4180)."""
    text = io.StringIO()
    csv.writer(text).writerows([safe_cell(cell) for cell in row] for row in rows)
    return text.getvalue().encode()


def safe_cell(cell: object) -> str:
    """Put an apostrophe before a text that a spreadsheet would run as a formula."""
    text = "" if cell is None else str(cell)
    formula = text.startswith(_RISKY) and not _NUMBER.fullmatch(text)
    return f"'{text}" if formula else text


def plain(price: float | None, notation: Notation) -> str:
    """Format a price as a plain decimal number, for programs. Empty if there is none."""
    if price is None:
        return ""
    whole, _, fraction = price_text(price_e9(price)).partition(".")
    return f"{whole}.{fraction.ljust(notation.decimals, '0')}" if notation.decimals else whole


def plain_lots(lots: Size) -> str:
    """Format a volume as a plain decimal number, for programs."""
    return lots_text(lots).replace(",", "")


def _level_rows(answer: LevelsAnswer, notation: Notation) -> Iterator[Sequence[object]]:
    as_of = answer.updated_at or answer.as_of

    def row(level: str, price: float | None, made_on: str = "") -> Sequence[object]:
        return (answer.symbol, as_of, level, plain(price, notation), made_on)

    if answer.last_price is not None:
        yield row("last", answer.last_price)
    for name in (
        ("poc", "vah", "val", "vpoc", "ib_high", "ib_low", "high", "low") if answer.developing else ()
    ):
        yield row(f"developing_{name}", getattr(answer.developing, name))
    for name in ("poc", "vah", "val"):
        yield row(f"prior_{name}", getattr(answer.prior, name))
    if answer.overnight:
        yield row("overnight_high", answer.overnight.high)
        yield row("overnight_low", answer.overnight.low)
    for kind, levels in (
        ("naked_poc", answer.naked_pocs),
        ("poor_high", answer.poor_highs),
        ("poor_low", answer.poor_lows),
    ):
        for level in levels:
            yield row(kind, level.price, level.date)


def _levels(context: PageContext, scope: Scope, symbol: str) -> tuple[LevelsAnswer, Notation]:
    services = context.services
    answer = services.query.levels(scope, symbol, services.market_clock.now_ns()).answer
    return answer, notation_of(services.universe.products[answer.symbol])


def _scope(request: PageRequest) -> Scope:
    if request.scope is None:
        raise NotSignedIn
    return request.scope


def _symbol(request: PageRequest) -> str:
    return str(request.http.path_params["symbol"])


def _sent(context: PageContext, request: PageRequest, body: bytes, media_type: str) -> Response:
    response = context.with_page_headers(request, Response(body, media_type=media_type))
    if media_type.startswith("text/csv"):
        name = request.http.url.path.rpartition("/")[2]
        symbol = "".join(letter for letter in _symbol(request) if letter.isascii() and letter.isalnum())
        response.headers["content-disposition"] = f'attachment; filename="{symbol}-{name}"'
    return response


PAGES: Sequence[Page] = (
    ("/s/{symbol}/levels.json", ("GET",), levels_json),
    ("/s/{symbol}/levels.csv", ("GET",), levels_csv),
    ("/s/{symbol}/profile.csv", ("GET",), profile_csv),
)
