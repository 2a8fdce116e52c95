"""The page `/match`: find the settings that reproduce the levels of another platform.

The URL contains all entries, so that a search can be repeated and shared with users who may see the same session.
"""

import re
from collections.abc import Mapping, Sequence
from datetime import date
from decimal import Decimal
from functools import partial
from typing import Any

import msgspec
from starlette.responses import Response

from outcry.access.licences import Scope
from outcry.answers.charting import notation_of
from outcry.answers.match_words import hours_text, reason
from outcry.answers.matching import GivenPrices
from outcry.base.errors import NoLicensedSource, NotFound, Occupied, ServiceError, UnknownSymbol
from outcry.market.saved_setting import BadSetting, setting_of
from outcry.market.units import price_of_text
from outcry.web import number_format
from outcry.web.form_input import Faults
from outcry.web.language import Words
from outcry.web.page_context import NotSignedIn, Page, PageContext, PageRequest
from outcry.wire.chart import Notation
from outcry.wire.match import MatchAnswer, MatchedSetting

FIELDS = ("symbol", "date", "poc", "vah", "val", "vpoc")
_MAX_ENTRY = 64
_GROUPED = re.compile(r"-?[0-9]{1,3}(,[0-9]{3})+(\.[0-9]+)?", re.ASCII)
_NOT_SEARCHED: Mapping[str, Any] = {"answer": None}
#: Names of the fields of the form in which an error of the search is shown.
_FIELD_OF: Mapping[type[ServiceError], str] = {
    UnknownSymbol: "symbol", NoLicensedSource: "symbol", NotFound: "date", Occupied: "",
}  # fmt: skip


async def match_page(context: PageContext, request: PageRequest) -> Response:
    """Show the form and, once it is filled in, the settings (`GET /match`)."""
    if request.scope is None:
        raise NotSignedIn
    query = request.http.query_params
    entries = {name: query.get(name, "").strip()[:_MAX_ENTRY] for name in FIELDS}
    faults, values = Faults(), _NOT_SEARCHED
    if any(entries[name] for name in FIELDS if name != "symbol"):
        given = _given(entries, request.words, faults)
        if given is not None:
            values = await _search(context, request, request.scope, entries, given, faults)
    return context.page(
        request, "symbol/match.html", 422 if faults else 200, entries=entries, faults=faults, **values
    )


def _given(entries: Mapping[str, str], words: Words, faults: Faults) -> GivenPrices | None:
    """Return the entered levels; None if an entry is missing or invalid, and add what is wrong to `faults`."""
    if not entries["symbol"]:
        faults["symbol"] = words("Symbol is missing.")
    if not _is_day(entries["date"]):
        faults["date"] = words("Enter a date.")
    prices = {name: price_of_text(_ungrouped(entries[name])) for name in FIELDS[2:]}
    for name in ("poc", "vah", "val"):
        if prices[name] is None:
            faults[name] = words("Enter a price such as 6650.25.")
    if entries["vpoc"] and prices["vpoc"] is None:
        faults["vpoc"] = words("Enter a price such as 6650.25.")
    poc, vah, val = prices["poc"], prices["vah"], prices["val"]
    if faults or poc is None or vah is None or val is None:
        return None
    if vah < val:
        faults["vah"] = words("VAH is below VAL. Swap the two prices.")
        return None
    return GivenPrices(poc, vah, val, prices["vpoc"])


async def _search(
    context: PageContext, request: PageRequest, scope: Scope, entries: Mapping[str, str], given: GivenPrices,
    faults: Faults,
) -> Mapping[str, Any]:  # fmt: skip
    """Return the values of the result; none if there is no answer, and add the reason to `faults`."""
    words, services = request.words, context.services
    messages: Mapping[type[ServiceError], str] = {
        UnknownSymbol: words("No product or contract has this symbol."),
        NoLicensedSource: words("You have no completed session of this product."),
        NotFound: words("No completed regular session is stored for this date."),
        Occupied: words("Another search is running. Try again in a few seconds."),
    }
    now_ns = services.market_clock.now_ns()
    try:
        found = await context.ask(
            services.query.match, scope, entries["symbol"], entries["date"], given, now_ns
        )
    except tuple(messages) as problem:
        faults[_FIELD_OF[type(problem)]] = messages[type(problem)]
        return _NOT_SEARCHED
    return _values(found.answer, words, context, signed_in=request.user is not None)


def _values(answer: MatchAnswer, words: Words, context: PageContext, *, signed_in: bool) -> Mapping[str, Any]:
    notation = notation_of(context.services.universe.products[answer.symbol])

    return {
        "answer": answer,
        "rows": [
            (each, _reasons(each, words), _savable(each) if signed_in else {}) for each in answer.matches
        ],
        "price": partial(row_price_text, tick_size=answer.tick_size, notation=notation),
        "not_searched": [hours_text(name, words) for name in answer.not_searched],
    }


def row_price_text(value: float, tick_size: float, notation: Notation) -> str:
    """Format the price of a row. Between two ticks, such as the middle of a row, it has all its decimals."""
    if number_format.price_e9(value) % number_format.price_e9(tick_size) == 0:
        return number_format.price_text(value, notation)
    return f"{Decimal(repr(value)):,f}"


def _savable(found: MatchedSetting) -> dict[str, str | int]:
    """Return the values of a setting that a user can save; empty for hours or rows that no profile can have."""
    try:
        return setting_of("", msgspec.to_builtins(found)).values()
    except BadSetting:
        return {}


def _reasons(found: MatchedSetting, words: Words) -> list[str]:
    return [
        reason(each.part, each.value, each.ours, words, basis=found.basis, placement=found.placement)
        for each in found.differences
    ]


def _ungrouped(text: str) -> str:
    """Return a price without the commas between thousands: 6,650.25. Other commas remain, so the entry is invalid."""
    return text.replace(",", "") if _GROUPED.fullmatch(text) else text


def _is_day(text: str) -> bool:
    try:
        return len(text) == len("2026-01-02") and bool(date.fromisoformat(text))
    except ValueError:
        return False


PAGES: Sequence[Page] = (("/match", ("GET",), match_page),)
