"""The page of one symbol, for example `/s/ES`: chart, levels, bias, playbook and alerts.

A symbol has one URL; other symbol formats redirect to it. The URL holds the view. Updates use the same templates as the
page.
"""

from collections.abc import Sequence

from starlette.responses import Response

from outcry.access.licences import Scope
from outcry.answers.symbol_resolver import utc_date
from outcry.base.errors import InvalidParameter, NoLicensedSource, NotFound, UnknownSymbol
from outcry.web.page_context import Desk, NotSignedIn, Page, Visit
from outcry.web.status_labels import state_of
from outcry.web.symbol.chart_view import view_of
from outcry.web.symbol.outlook import Gatherer, Outlook
from outcry.web.symbol.parts import Gathered, Looked, path_of, values_of

#: Maximum number of alerts beside the chart.
MOST_ALERTS = 12


async def symbol_page(desk: Desk, visit: Visit) -> Response:
    """`/s/{symbol}`."""
    asked = visit.request.path_params["symbol"]
    found = await _found(desk, visit, asked)
    if isinstance(found, Response):
        return found
    if asked != found.outlook.symbol:
        return desk.to(visit, path_of(found.outlook.symbol, visit.request.query_params.multi_items()), 302)
    return desk.page(visit, "symbol/symbol.html", **values_of(desk, visit, looked_at(visit), found))


async def symbol_rail(desk: Desk, visit: Visit) -> Response:
    """Return the parts that the script updates: head, rail and, if shown, the table."""
    found = await _found(desk, visit, visit.request.path_params["symbol"])
    if isinstance(found, Response):
        return found
    return desk.fragment(visit, "symbol/parts.html", **values_of(desk, visit, looked_at(visit), found))


def looked_at(visit: Visit) -> Looked:
    """Read the view from the URL; invalid values are ignored."""
    query = visit.request.query_params
    return Looked(
        view_of(query, query.getlist("show")), query.get("view") == "table", query.get("date", "")[:10]
    )


async def _found(desk: Desk, visit: Visit, asked: str) -> Gathered | Response:
    """Return the symbol's data, or the page that explains why there is none."""
    if visit.scope is None:
        raise NotSignedIn
    looked = looked_at(visit)
    try:
        return await desk.ask(_gather, desk, visit.scope, asked, looked)
    except UnknownSymbol as refusal:
        suggestions = refusal.details.get("suggestions", [])
        return desk.page(visit, "symbol/unknown.html", 404, symbol=asked[:64], suggestions=suggestions)
    except NoLicensedSource as refusal:
        universe = desk.services.universe
        product = universe.products.get(str(refusal.details.get("symbol", "")))
        contract = universe.resolve(asked, utc_date(desk.services.market_clock.now_ns())).contract
        state = (refusal.details.get("reasons") or ["no_connection"])[0]
        return desk.page(
            visit, "symbol/nothing.html", symbol=contract.key if contract else product.root if product else asked[:64],
            name=product.name if product else "", state=state_of(visit.words, state),
            front=product.root if product and contract else "",
        )  # fmt: skip


def _gather(desk: Desk, scope: Scope, asked: str, looked: Looked) -> Gathered:
    services = desk.services
    now_ns = services.market_clock.now_ns()
    gatherer = Gatherer(services.query, services.universe, services.hours)
    outlook = gatherer.outlook(scope, asked, looked.view.sessions if looked.table else 2, now_ns)
    profile = outlook.profile
    if looked.table and looked.date and looked.date != outlook.session.date:
        try:
            profile = services.query.profile(scope, asked, looked.date, now_ns).answer
        except (NotFound, InvalidParameter):
            profile = outlook.profile
    day = outlook.session.date
    alerts = services.query.alerts_history(
        scope, outlook.symbol, day, day, None, None, MOST_ALERTS, now_ns
    ).answer
    return Gathered(outlook, profile, alerts.alerts, _follows(desk, scope, outlook, now_ns))


def _follows(desk: Desk, scope: Scope, outlook: Outlook, now_ns: int) -> bool:
    """Whether the stream's updates for the product are for this contract."""
    if not outlook.named:
        return True
    try:
        front = desk.services.query.context(scope, outlook.product.root, now_ns).answer
    except NoLicensedSource:
        return False
    return front.contract == outlook.context.contract


PAGES: Sequence[Page] = (
    ("/s/{symbol}", ("GET",), symbol_page),
    ("/s/{symbol}/rail", ("GET",), symbol_rail),
)
