"""The page of one symbol, for example `/s/ES`: chart, levels, bias, playbook and alerts.

A symbol has one URL; other symbol formats redirect to it. The URL contains all choices of the view. Updates of the page
are rendered by the same templates as the page.
"""

from collections.abc import Sequence

from starlette.responses import Response

from outcry.access.licences import Scope
from outcry.answers.selection import utc_date
from outcry.base.errors import InvalidParameter, NoLicensedSource, NotFound, UnknownSymbol
from outcry.market.methods import PRESETS
from outcry.market.saved_setting import is_own_name, is_reserved
from outcry.web.page_context import NotSignedIn, Page, PageContext, PageRequest
from outcry.web.status_labels import status_label
from outcry.web.symbol.chart_view import ChartView, view_of
from outcry.web.symbol.outlook import Gatherer, Outlook
from outcry.web.symbol.parts import ChosenView, Gathered, values_of
from outcry.web.symbol.paths import path_of
from outcry.web.symbol.profile_choice import choice_of
from outcry.web.symbol.profile_view import read_profile

#: Maximum number of alerts beside the chart.
MAX_ALERTS = 12


async def symbol_page(context: PageContext, request: PageRequest) -> Response:
    """Show the page of a symbol (`/s/{symbol}`)."""
    symbol = request.http.path_params["symbol"]
    found = await _found(context, request, symbol)
    if isinstance(found, Response):
        return found
    if symbol != found.outlook.symbol:
        return context.to(
            request, path_of(found.outlook.symbol, request.http.query_params.multi_items()), 302
        )
    return context.page(
        request, "symbol/symbol.html", **values_of(context, request, chosen_view(context, request), found)
    )


async def symbol_rail(context: PageContext, request: PageRequest) -> Response:
    """Return the parts of the page that the script updates: head, side column and, if shown, the table."""
    found = await _found(context, request, request.http.path_params["symbol"])
    if isinstance(found, Response):
        return found
    return context.fragment(
        request, "symbol/parts.html", **values_of(context, request, chosen_view(context, request), found)
    )


def chosen_view(context: PageContext, request: PageRequest) -> ChosenView:
    """Read the chosen view from the URL; ignore invalid values."""
    query = request.http.query_params
    if query.get("view") == "profile":
        named = query.get("method", "")
        own = (named,) if is_own_name(named) and not is_reserved(named) else ()  # unknown names are reported
        choice = choice_of(query, (*PRESETS, *own))
        return ChosenView(ChartView(), table=False, date="", profile=choice)
    return ChosenView(
        view_of(query, query.getlist("show")), query.get("view") == "table", query.get("date", "")[:10]
    )


async def _found(context: PageContext, request: PageRequest, symbol: str) -> Gathered | Response:
    """Return the data of a requested symbol, or the page that explains why there is none."""
    if request.scope is None:
        raise NotSignedIn
    chosen = chosen_view(context, request)
    try:
        return await context.ask(_gather, context, request.scope, symbol, chosen)
    except UnknownSymbol as refusal:
        suggestions = refusal.details.get("suggestions", [])
        return context.page(request, "symbol/unknown.html", 404, symbol=symbol[:64], suggestions=suggestions)
    except NoLicensedSource as refusal:
        universe = context.services.universe
        product = universe.products.get(str(refusal.details.get("symbol", "")))
        contract = universe.resolve(symbol, utc_date(context.services.market_clock.now_ns())).contract
        state = (refusal.details.get("reasons") or ["no_connection"])[0]
        return context.page(
            request, "symbol/nothing.html",
            symbol=contract.key if contract else product.root if product else symbol[:64],
            name=product.name if product else "", state=status_label(request.words, state),
            front=product.root if product and contract else "",
        )  # fmt: skip


def _gather(context: PageContext, scope: Scope, symbol: str, chosen: ChosenView) -> Gathered:
    services = context.services
    now_ns = services.market_clock.now_ns()
    gatherer = Gatherer(services.query, services.universe, services.hours)
    outlook = gatherer.outlook(scope, symbol, chosen.view.sessions if chosen.table else 2, now_ns)
    profile = outlook.profile
    if chosen.table and chosen.date and chosen.date != outlook.session.date:
        try:
            profile = services.query.profile(scope, symbol, chosen.date, now_ns).answer
        except (NotFound, InvalidParameter):
            profile = outlook.profile
    day = outlook.session.date
    alerts = services.query.alerts_history(
        scope, outlook.symbol, day, day, None, None, MAX_ALERTS, now_ns
    ).answer
    drawn, methods = None, ()
    if chosen.profile is not None:
        methods = services.query.profile_methods(scope)
        drawn = read_profile(services.query, scope, symbol, chosen.profile, outlook.product.zone, now_ns)
    return Gathered(
        outlook, profile, alerts.alerts, _follows(context, scope, outlook, now_ns), drawn, methods
    )


def _follows(context: PageContext, scope: Scope, outlook: Outlook, now_ns: int) -> bool:
    """Whether the product's updates in the event stream are about the contract that this page shows."""
    if not outlook.named:
        return True
    try:
        front = context.services.query.context(scope, outlook.product.root, now_ns).answer
    except NoLicensedSource:
        return False
    return front.contract == outlook.context.contract


PAGES: Sequence[Page] = (
    ("/s/{symbol}", ("GET",), symbol_page),
    ("/s/{symbol}/rail", ("GET",), symbol_rail),
)
