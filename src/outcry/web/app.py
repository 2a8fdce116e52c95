"""The pages as one application: identify the user once, then run the page's handler.

Each page module declares its routes and knows no other page. Errors are pages in the reader's language. Only known host
names are answered, to prevent host header attacks.
"""

from collections.abc import Awaitable, Callable, Mapping
from http.cookies import CookieError
from urllib.parse import quote

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from outcry.base.errors import ServiceError, StoreUnavailable
from outcry.base.log_events import LogEvent
from outcry.database.errors import StoreBusy
from outcry.http.auth import LOCAL_COOKIE, SECURE_COOKIE, anonymous
from outcry.http.edge import AsgiApp
from outcry.http.errors import STATUS, allow, allowed_at
from outcry.http.names import is_ours, name_of
from outcry.people.model import Preferences
from outcry.web import routes as pages
from outcry.web.form_input import FormRefused
from outcry.web.language import LANGUAGES, Languages
from outcry.web.other_addresses import other_addresses
from outcry.web.page_context import (
    LANGUAGE_COOKIE,
    THEME_COOKIE,
    Desk,
    Handler,
    NotAllowed,
    NotConfirmed,
    NotSignedIn,
    PageMissing,
    Visit,
    new_binding,
    visit_cookie,
)
from outcry.web.page_services import PageServices
from outcry.web.static import StaticFiles
from outcry.web.template_engine import Templates

#: Maximum page and form requests per user or client in any 60 seconds.
PAGES_A_MINUTE = 1200
FORMS_A_MINUTE = 240


def build_pages(services: PageServices) -> AsgiApp:
    """Build the application of all pages."""
    static = StaticFiles()
    languages = Languages()
    desk = Desk(services, Templates(static, languages=LANGUAGES, demo=services.demo), static, languages)
    routes: list[BaseRoute] = [
        Route("/static/{version}/{name:path}", static.serve),
        Route("/favicon.ico", static.icon),  # requested by clients that do not read the page
    ]
    for path, methods, handler in pages.all_pages():
        routes.append(Route(path, _endpoint(desk, handler), methods=list(methods)))
    routes += other_addresses()

    async def on_http_error(request: Request, error: Exception) -> Response:
        status = error.status_code if isinstance(error, HTTPException) else 500
        more = {"allow": allow(allowed_at(routes, request.scope))} if status == 405 else None
        return await _error(desk, visit_of(desk, request), status, more)

    app = Starlette(routes=routes, exception_handlers={HTTPException: on_http_error})
    app.router.redirect_slashes = False
    return app  # pyright: ignore[reportReturnType] - Starlette types its scope as a mutable mapping


def _endpoint(desk: Desk, handler: Handler) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        visit = visit_of(desk, request)
        if not is_ours(name_of(request.headers.get("host", "")), desk.services.public_url):
            return await _error(desk, visit, 421)
        wait_s = await _wait_s(desk, visit)
        if wait_s:
            return await _error(desk, visit, 429, {"retry-after": str(wait_s)})
        back = quote(visit.path if request.method in ("GET", "HEAD") else request.url.path, safe="/")
        try:
            return await desk.drawn(await handler(desk, visit))
        except NotSignedIn:
            return desk.to(visit, f"/sign-in?next={back}")
        except NotConfirmed:
            return desk.to(visit, f"/confirm?next={back}")
        except NotAllowed:
            return await _error(desk, visit, 403)
        except PageMissing:
            return await _error(desk, visit, 404)
        except FormRefused:
            return await _error(desk, visit, 400)
        except (StoreBusy, StoreUnavailable):
            return await _error(desk, visit, 502)
        except ServiceError as refusal:
            return await _error(desk, visit, STATUS.get(refusal.code, 500))
        except Exception as error:  # noqa: BLE001 - the user gets an error page, the log the details
            desk.services.journal.error(LogEvent.PAGE_FAILED, path=request.url.path, exc_info=error)
            return await _error(desk, visit, 500)

    return answer


def visit_of(desk: Desk, request: Request) -> Visit:
    """Return the request's user and preferences, from memory."""
    services = desk.services
    try:
        cookies = request.cookies
    except CookieError:
        cookies = {}
    secure = request.url.scheme == "https"
    token = cookies.get(SECURE_COOKIE if secure else LOCAL_COOKIE, "")
    found = services.browsers.find(token, services.clock.now_ns(), secure=secure)
    session, user = found or (None, None)
    preferences = user.preferences if user else Preferences()
    binding = cookies.get(visit_cookie(secure=secure), "")
    # Whether signed in or not: this cookie goes with the browser's last window, that of the session stays.
    fresh = not 16 <= len(binding) <= 64
    theme = preferences.theme if user else cookies.get(THEME_COOKIE, "auto")
    return Visit(
        request=request,
        words=desk.languages.choose(
            preferences.language, cookies.get(LANGUAGE_COOKIE, ""), request.headers.get("accept-language", "")
        ),
        theme=theme if theme in {"dark", "light"} else "auto",
        preferences=preferences,
        user=user,
        session=session,
        scope=services.licences.of_person(user.id, user.tier) if user else services.visitor(),
        binding=new_binding() if fresh else binding,
        secure=secure,
        fresh=fresh,
        lapsed=None if found else services.browsers.lapsed(token, services.clock.now_ns(), secure=secure),
    )


async def _wait_s(desk: Desk, visit: Visit) -> int:
    """Count a page request; return the seconds to wait if the user or client sent too many, else 0."""
    client = visit.request.client
    who = f"pages:{visit.user.id}" if visit.user else anonymous(client.host if client else "").subject
    counted = [(f"page:{who}", PAGES_A_MINUTE)]
    if visit.request.method == "POST":
        counted.append((f"form:{who}", FORMS_A_MINUTE))
    for subject, limit in counted:
        verdict = await desk.counted(subject, limit)
        if not verdict.allowed:
            return max(1, -(-verdict.retry_after_ms // 1000))
    return 0


async def _error(desk: Desk, visit: Visit, status: int, headers: Mapping[str, str] | None = None) -> Response:
    response = await desk.drawn(desk.page(visit, "error.html", status))
    response.headers.update(headers or {})
    return response
