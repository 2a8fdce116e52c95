"""Redirects from URLs that people guess or remember: `/levels` to `/`, `/symbol/ES` to `/s/ES`.

Each redirect leads to a path on this site, and keeps the query string.
"""

from collections.abc import Awaitable, Callable
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from outcry.web.page_context import safe_path

#: Longer than any symbol in any format.
_LONGEST = 64
_TO_LEVELS = ("/levels", "/symbols", "/symbol", "/s")
_TO_SYMBOL = ("/levels/{symbol}", "/symbols/{symbol}", "/symbol/{symbol}")


def other_addresses() -> list[Route]:
    """Return the routes that redirect, each with and without a trailing slash."""
    routes = [Route(path + end, _to_levels) for path in _TO_LEVELS for end in ("", "/")]
    routes += [Route(path + end, _to_symbol) for path in _TO_SYMBOL for end in ("", "/")]
    return [*routes, Route("/s/{symbol}/", _to_symbol)]


def _leads(path_of: Callable[[Request], str]) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        query = request.url.query
        path = safe_path(path_of(request) + (f"?{query}" if query else ""))
        return RedirectResponse(path, 308, {"cache-control": "public, max-age=3600"})

    return answer


_to_levels = _leads(lambda _request: "/")
_to_symbol = _leads(lambda request: f"/s/{quote(request.path_params['symbol'][:_LONGEST], safe='')}")
