"""The account's front: `/account`, with how answers stand for this user, and preferences.

Rule kept: what stands between a user and live answers is said with the one next step that changes it.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from zoneinfo import available_timezones

from starlette.responses import Response

from outcry.accounts.licences import Scope
from outcry.ports.identity import Preferences
from outcry.web.desk import Desk, Page, Visit
from outcry.web.feed_words import next_step
from outcry.web.forms import Faults, line, note_of
from outcry.web.language import LANGUAGES
from outcry.web.states import State, state_of

_THEMES = ("auto", "dark", "light")


@dataclass(frozen=True, slots=True)
class Reason:
    """Why `count` symbols are not live; `step`: what changes it, and where, if anything does."""

    state: State
    count: int
    step: tuple[str, str] | None


@dataclass(frozen=True, slots=True)
class Front:
    """How a user's answers stand: symbols live and delayed (`shut`: neither), why they are not live by how many, and
    how much there is of what can be changed here."""

    live: int
    delayed: int
    shut: int
    reasons: list[Reason]
    keys: int
    subscriptions: int
    connections: int


async def front(desk: Desk, visit: Visit) -> Response:
    """How things stand, and preferences."""
    return await _front(desk, visit, desk.user(visit).preferences, {})


async def prefer(desk: Desk, visit: Visit) -> Response:
    """Keep preferences."""
    user = desk.user(visit)
    form = await desk.form(visit)
    faults: Faults = {}
    wished = _preferences(form, faults, visit)
    if faults:
        return await _front(desk, visit, wished, faults)
    await desk.ask(desk.services.identity.prefer, user, wished)
    return desk.to(visit, "/account?done=saved")


async def _front(desk: Desk, visit: Visit, shown: Preferences, faults: Faults) -> Response:
    found = await desk.ask(_stand, desk, visit)
    return desk.page(
        visit,
        "account/front.html",
        422 if faults else 200,
        front=found,
        shown=shown,
        faults=faults,
        done=note_of(visit),
        zones=zones(),
    )


def _stand(desk: Desk, visit: Visit) -> Front:
    user, services = desk.user(visit), desk.services
    scope = visit.scope or Scope(user.id, ())
    symbols = services.query.symbols(scope, services.market_clock.now_ns()).answer.symbols
    not_live = [one for one in symbols if not one.live]
    codes = Counter(one.state for one in not_live).most_common()
    return Front(
        live=len(symbols) - len(not_live),
        delayed=sum(one.data_source is not None for one in not_live),
        shut=sum(one.data_source is None for one in not_live),
        reasons=[Reason(state_of(visit.words, code), n, next_step(visit.words, code)) for code, n in codes],
        keys=sum(row.is_live(desk.now_ns()) for row in services.keys.of(user.id)),
        subscriptions=len(services.subscriptions.of(user.id)),
        connections=len(services.connections.connections(user.id)),
    )


def _preferences(form: dict[str, str], faults: Faults, visit: Visit) -> Preferences:
    words = visit.words
    language, theme = line(form, "language", faults, words), line(form, "theme", faults, words)
    zone, hour = line(form, "time_zone", faults, words), line(form, "digest_hour", faults, words)
    if language and language not in LANGUAGES:
        faults["language"] = words("Choose one of the languages of the list.")
    if theme not in _THEMES:
        faults["theme"] = words("Choose one of the themes of the list.")
    if zone not in zones():
        faults["time_zone"] = words("There is no time zone of this name: choose one of the list.")
    if not (hour.isascii() and hour.isdigit() and len(hour) <= 2 and int(hour) < 24):
        faults["digest_hour"] = words("The hour of the digest is a number from 0 to 23.")
    return Preferences(
        language=language,
        time_zone=zone,
        theme=theme,  # pyright: ignore[reportArgumentType] - judged above; shown again as typed
        digest_hour=int(hour) if "digest_hour" not in faults else visit.preferences.digest_hour,
        shortcuts=form.get("shortcuts") == "yes",
    )


@cache
def zones() -> tuple[str, ...]:
    """Every time zone there is, by name."""
    return tuple(sorted(name for name in available_timezones() if "/" in name or name == "UTC"))


PAGES: Sequence[Page] = (
    ("/account", ("GET",), front),
    ("/account", ("POST",), prefer),
)
