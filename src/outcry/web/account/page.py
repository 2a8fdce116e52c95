"""Account overview: `/account`. Data status of the user's symbols, and preferences.

For each reason why symbols are not live, the page shows what the user can do next, if anything.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import get_args
from zoneinfo import available_timezones

from starlette.responses import Response

from outcry.access.licences import Scope
from outcry.people.model import Preferences, Theme
from outcry.web.account.delivery_health import worries
from outcry.web.account.feed_words import WAITING, next_step
from outcry.web.form_input import Faults
from outcry.web.form_state import delete_typed, done_code, prove_first, restore_typed
from outcry.web.language import LANGUAGES, Words
from outcry.web.page_context import Page, PageContext, PageRequest
from outcry.web.status_labels import StatusLabel, status_label

FRONT = "/account"
_ENTRIES = ("language", "theme", "time_zone", "digest_hour", "shortcuts")


@dataclass(frozen=True, slots=True)
class Reason:
    """A reason why `count` symbols are not live. `step`: what to do next and its URL; None if the user need not act."""

    state: StatusLabel
    count: int
    step: tuple[str, str] | None


@dataclass(frozen=True, slots=True)
class Front:
    """The numbers and statuses on the account overview.

    - `live`, `delayed`, `shut`: number of symbols that are live, delayed, and without data.
    - `reasons`: why symbols are not live, most frequent first.
    - `keys`: number of active API keys. `subscriptions`, `connections`: number of all that the user has.
    - `worries`: number of webhooks that are failing, disabled or unconfirmed.
    - `waiting`: number of connections that need an action of the user.
    """

    live: int
    delayed: int
    shut: int
    reasons: list[Reason]
    keys: int
    subscriptions: int
    worries: int
    connections: int
    waiting: int


async def front(context: PageContext, request: PageRequest) -> Response:
    """Show the account overview: the data status of the user's symbols, and the preferences form."""
    kept = context.user(request).preferences
    shown = {"language": kept.language, "theme": kept.theme, "time_zone": kept.time_zone}
    shown |= {"digest_hour": str(kept.digest_hour), "shortcuts": "yes" if kept.shortcuts else ""}
    page = await _front(context, request, shown | restore_typed(context, request, FRONT), {})
    return delete_typed(request, page)


async def prefer(context: PageContext, request: PageRequest) -> Response:
    """Save the preferences form."""
    context.sender(request)
    form = await context.form(request)
    faults = form.faults
    typed = {name: form.line(name) for name in _ENTRIES}
    if request.user is None:
        return prove_first(context, request, FRONT, typed)
    wished = _preferences(typed, faults, request.words)
    if wished is None:
        return await _front(context, request, typed, faults)
    await context.ask(context.services.identity.prefer, request.user, wished)
    return context.to(request, f"{FRONT}?done=saved")


async def _front(
    context: PageContext, request: PageRequest, shown: Mapping[str, str], faults: Faults
) -> Response:
    found = await context.ask(_stand, context, request)
    return context.page(
        request,
        "account/front.html",
        422 if faults else 200,
        front=found,
        shown=shown,
        faults=faults,
        done=done_code(request),
        zones=zones(),
        running=context.services.subscriptions.running,
    )


def _stand(context: PageContext, request: PageRequest) -> Front:
    user, services = context.user(request), context.services
    scope = request.scope or Scope(user.id, ())
    symbols = services.query.symbols(scope, services.market_clock.now_ns()).answer.symbols
    not_live = [one for one in symbols if not one.live]
    codes = Counter(one.state for one in not_live).most_common()
    webhooks, worrying = worries(context, user.id)
    connections = services.connections.connections(user.id)
    return Front(
        live=len(symbols) - len(not_live),
        delayed=sum(one.data_source is not None for one in not_live),
        shut=sum(one.data_source is None for one in not_live),
        reasons=[
            Reason(status_label(request.words, code), n, next_step(request.words, code)) for code, n in codes
        ],
        keys=sum(row.is_live(context.now_ns()) for row in services.keys.of(user.id)),
        subscriptions=webhooks,
        worries=worrying,
        connections=len(connections),
        waiting=sum(row.phase in WAITING for row in connections),
    )


def _preferences(typed: Mapping[str, str], faults: Faults, words: Words) -> Preferences | None:
    """Return the typed preferences; None, with faults added, if an entry is invalid."""
    if typed["language"] and typed["language"] not in LANGUAGES:
        faults["language"] = words("Choose a language from the list.")
    theme = next((theme for theme in get_args(Theme) if theme == typed["theme"]), None)
    if theme is None:
        faults["theme"] = words("Choose a theme from the list.")
    if typed["time_zone"] not in zones():
        faults["time_zone"] = words("Unknown time zone. Choose one from the list.")
    hour = typed["digest_hour"]
    if not (hour.isascii() and hour.isdigit() and len(hour) <= 2 and int(hour) < 24):
        faults["digest_hour"] = words("Enter an hour from 0 to 23.")
    if faults or theme is None:
        return None
    return Preferences(typed["language"], typed["time_zone"], theme, int(hour), typed["shortcuts"] == "yes")


@cache
def zones() -> tuple[str, ...]:
    """Return the names of all time zones, sorted."""
    return tuple(sorted(name for name in available_timezones() if "/" in name or name == "UTC"))


PAGES: Sequence[Page] = (
    (FRONT, ("GET",), front),
    (FRONT, ("POST",), prefer),
)
