"""Language and theme: a cookie in this browser, and a preference of the signed-in user.

Only offered values are accepted; the form redirects back to its page.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import cast, get_args

from starlette.responses import Response

from outcry.people.model import Preferences, Theme
from outcry.web.form_input import FormRefused
from outcry.web.language import LANGUAGES
from outcry.web.page_context import LANGUAGE_COOKIE, THEME_COOKIE, Desk, Page, Visit, safe_path

_YEAR_S = 365 * 24 * 3600


async def language(desk: Desk, visit: Visit) -> Response:
    """Set the language."""
    form = await desk.form(visit)
    chosen = form.get("language", "")
    if chosen not in LANGUAGES:
        raise FormRefused
    kept = replace(visit.preferences, language=chosen)
    return await _keep(desk, visit, kept, LANGUAGE_COOKIE, chosen, form.get("next", "/"))


async def theme(desk: Desk, visit: Visit) -> Response:
    """Set the theme: dark, light or system."""
    form = await desk.form(visit)
    chosen = form.get("theme", "")
    if chosen not in get_args(Theme):
        raise FormRefused
    kept = replace(visit.preferences, theme=cast("Theme", chosen))
    return await _keep(desk, visit, kept, THEME_COOKIE, chosen, form.get("next", "/"))


async def _keep(desk: Desk, visit: Visit, kept: Preferences, cookie: str, chosen: str, back: str) -> Response:
    if visit.user is not None:
        await desk.ask(desk.services.identity.prefer, visit.user, kept)
    response = desk.to(visit, safe_path(back))
    desk.set_cookie(visit, response, cookie, chosen, _YEAR_S)
    return response


PAGES: Sequence[Page] = (
    ("/language", ("POST",), language),
    ("/theme", ("POST",), theme),
)
