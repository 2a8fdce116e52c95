"""The web pages as one application: it identifies the user of a request, then runs the page's handler.

Each page module declares its routes and does not depend on another page. Errors are shown as pages in the reader's
language. Requests with an unknown host name are refused, to prevent host header attacks.
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
from outcry.http.host_names import host_name, is_own_host
from outcry.people.model import Preferences
from outcry.web import routes as pages
from outcry.web.form_input import FormRefused
from outcry.web.language import LANGUAGES, Languages
from outcry.web.other_addresses import other_addresses
from outcry.web.page_context import (
    LANGUAGE_COOKIE,
    THEME_COOKIE,
    Handler,
    NotAllowed,
    NotConfirmed,
    NotSignedIn,
    PageContext,
    PageMissing,
    PageRequest,
    browser_cookie,
    new_binding,
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
    context = PageContext(
        services, Templates(static, languages=LANGUAGES, demo=services.demo), static, languages
    )
    routes: list[BaseRoute] = [
        Route("/static/{version}/{name:path}", static.serve),
        Route("/favicon.ico", static.icon),  # requested by clients that do not read the page
    ]
    for path, methods, handler in pages.all_pages():
        routes.append(Route(path, _endpoint(context, handler), methods=list(methods)))
    routes += other_addresses()

    async def on_http_error(http: Request, error: Exception) -> Response:
        status = error.status_code if isinstance(error, HTTPException) else 500
        more = {"allow": allow(allowed_at(routes, http.scope))} if status == 405 else None
        return await _error(context, page_request(context, http), status, more)

    app = Starlette(routes=routes, exception_handlers={HTTPException: on_http_error})
    app.router.redirect_slashes = False
    return app  # pyright: ignore[reportReturnType] - Starlette types its scope as a mutable mapping


def _endpoint(context: PageContext, handler: Handler) -> Callable[[Request], Awaitable[Response]]:
    async def answer(http: Request) -> Response:
        request = page_request(context, http)
        if not is_own_host(host_name(http.headers.get("host", "")), context.services.public_url):
            return await _error(context, request, 421)
        wait_s = await _wait_s(context, request)
        if wait_s:
            return await _error(context, request, 429, {"retry-after": str(wait_s)})
        back = quote(request.path if http.method in ("GET", "HEAD") else http.url.path, safe="/")
        try:
            return await context.rendered(await handler(context, request))
        except NotSignedIn:
            return context.to(request, f"/sign-in?next={back}")
        except NotConfirmed:
            return context.to(request, f"/confirm?next={back}")
        except NotAllowed:
            return await _error(context, request, 403)
        except PageMissing:
            return await _error(context, request, 404)
        except FormRefused:
            return await _error(context, request, 400)
        except (StoreBusy, StoreUnavailable):
            return await _error(context, request, 502)
        except ServiceError as refusal:
            return await _error(context, request, STATUS.get(refusal.code, 500))
        except Exception as error:  # noqa: BLE001 - the user gets an error page, the log the details
            context.services.event_log.error(LogEvent.PAGE_FAILED, path=http.url.path, exc_info=error)
            return await _error(context, request, 500)

    return answer


def page_request(context: PageContext, http: Request) -> PageRequest:
    """Return the page request of an HTTP request, with its user and preferences, without a database query."""
    services = context.services
    try:
        cookies = http.cookies
    except CookieError:
        cookies = {}
    secure = http.url.scheme == "https"
    token = cookies.get(SECURE_COOKIE if secure else LOCAL_COOKIE, "")
    found = services.browser_sessions.find(token, services.clock.now_ns(), secure=secure)
    session, user = found or (None, None)
    preferences = user.preferences if user else Preferences()
    binding = cookies.get(browser_cookie(secure=secure), "")
    # Set for signed-in users too: this cookie ends with the browser window, the session's does not.
    fresh = not 16 <= len(binding) <= 64
    theme = preferences.theme if user else cookies.get(THEME_COOKIE, "auto")
    return PageRequest(
        http=http,
        words=context.languages.choose(
            preferences.language, cookies.get(LANGUAGE_COOKIE, ""), http.headers.get("accept-language", "")
        ),
        theme=theme if theme in {"dark", "light"} else "auto",
        preferences=preferences,
        user=user,
        session=session,
        scope=services.licences.of_person(user.id, user.tier) if user else services.visitor(),
        binding=new_binding() if fresh else binding,
        secure=secure,
        fresh=fresh,
        lapsed=None
        if found
        else services.browser_sessions.find_expired(token, services.clock.now_ns(), secure=secure),
    )


async def _wait_s(context: PageContext, request: PageRequest) -> int:
    """Count a page request; return how many seconds the user or client must wait, 0 if below the limit."""
    client = request.http.client
    who = f"pages:{request.user.id}" if request.user else anonymous(client.host if client else "").subject
    counted = [(f"page:{who}", PAGES_A_MINUTE)]
    if request.http.method == "POST":
        counted.append((f"form:{who}", FORMS_A_MINUTE))
    for subject, limit in counted:
        verdict = await context.counted(subject, limit)
        if not verdict.allowed:
            return max(1, -(-verdict.retry_after_ms // 1000))
    return 0


async def _error(
    context: PageContext, request: PageRequest, status: int, headers: Mapping[str, str] | None = None
) -> Response:
    response = await context.rendered(context.page(request, "error.html", status))
    response.headers.update(headers or {})
    return response
