"""Language and theme, stored in a cookie of this browser and in the preferences of the signed-in user.

Only values that the form offers are accepted. Afterwards the browser returns to the page on which the form was.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import cast, get_args

from starlette.responses import Response

from outcry.people.model import Preferences, Theme
from outcry.web.form_input import FormRefused
from outcry.web.language import LANGUAGES
from outcry.web.page_context import LANGUAGE_COOKIE, THEME_COOKIE, Page, PageContext, PageRequest, safe_path

_YEAR_S = 365 * 24 * 3600


async def language(context: PageContext, request: PageRequest) -> Response:
    """Set the language."""
    form = await context.form(request)
    chosen = form.raw("language")
    if chosen not in LANGUAGES:
        raise FormRefused
    kept = replace(request.preferences, language=chosen)
    return await _keep(context, request, kept, LANGUAGE_COOKIE, chosen, form.raw("next") or "/")


async def theme(context: PageContext, request: PageRequest) -> Response:
    """Set the theme: dark, light or system."""
    form = await context.form(request)
    chosen = form.raw("theme")
    if chosen not in get_args(Theme):
        raise FormRefused
    kept = replace(request.preferences, theme=cast("Theme", chosen))
    return await _keep(context, request, kept, THEME_COOKIE, chosen, form.raw("next") or "/")


async def _keep(
    context: PageContext, request: PageRequest, kept: Preferences, cookie: str, chosen: str, back: str
) -> Response:
    if request.user is not None:
        await context.ask(context.services.identity.prefer, request.user, kept)
    response = context.to(request, safe_path(back))
    context.set_cookie(request, response, cookie, chosen, _YEAR_S)
    return response


PAGES: Sequence[Page] = (
    ("/language", ("POST",), language),
    ("/theme", ("POST",), theme),
)
