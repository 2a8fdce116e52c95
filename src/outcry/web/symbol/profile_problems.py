"""Why a symbol's page has no profile for a choice, in words, and other choices that may have one."""

from typing import Any

from outcry.answers.profiles import MAX_DAYS, MAX_DAYS_OF_TRADES
from outcry.base.errors import InvalidParameter, NotFound, Occupied, ServiceError
from outcry.market.ladder import BRACKET_MINUTES
from outcry.web.formatter import Formatter
from outcry.web.language import Words
from outcry.web.symbol.profile_choice import ProfileChoice

#: A label and what it changes in the choice.
Change = tuple[str, dict[str, Any]]


def explained(problem: ServiceError, choice: ProfileChoice, formatter: Formatter) -> tuple[str, list[Change]]:
    """Return why there is no profile and what to do, and other choices: label and changes."""
    words, details = formatter.clock.words, problem.details
    whole = (words("Show the newest day"), {"period": "day", "date": "", "anchor": ""})
    coarse = (words("Use brackets of 30 minutes"), {"bracket": BRACKET_MINUTES})
    plain = (words("Turn delta off"), {"delta": False})
    no_anchor = (words("Remove the anchor"), {"anchor": ""})
    if isinstance(problem, Occupied):
        return words("Other requests are reading trades right now. Try again in a few seconds."), [
            (words("Try again"), {})
        ]
    if problem.message_id == "not_found.trades":
        text = words(
            "The trades of %(day)s are not stored on this server, and only trades have what you chose.",
            day=formatter.day(str(details.get("date", ""))),
        )
        return text, [
            *([coarse] if choice.bracket < BRACKET_MINUTES else []),
            *([no_anchor] if choice.anchor else []),
        ]
    if isinstance(problem, NotFound):
        text = words(
            "No session of %(symbol)s is stored for these days and hours (%(day)s). "
            "Choose other days, or import their trades.",
            symbol=str(details.get("symbol", "")),
            day=formatter.day(str(details.get("date", ""))),
        )
        return text, [whole]
    if isinstance(problem, InvalidParameter):
        return _invalid(problem, choice, words), [
            *([plain] if _too_long_for_trades(problem) and choice.delta else []),
            *([coarse] if _too_long_for_trades(problem) and choice.bracket < BRACKET_MINUTES else []),
            whole,
        ]
    return words("This profile cannot be computed (%(code)s). Change the settings.", code=problem.code), [
        whole
    ]


def _invalid(problem: InvalidParameter, choice: ProfileChoice, words: Words) -> str:
    parameter = str(problem.details.get("parameter", ""))
    if problem.message_id == "invalid_parameter.range" and _too_long_for_trades(problem):
        return words(
            "Delta and brackets of 15 minutes are limited to %(most)s trade dates. "
            "Choose fewer days, or change the settings.",
            most=MAX_DAYS_OF_TRADES,
        )
    if problem.message_id == "invalid_parameter.range":
        return words("A profile has at most %(most)s trade dates. Choose fewer days.", most=MAX_DAYS)
    if problem.message_id == "invalid_parameter.order":
        return words("The first day is after the last day. Swap them.")
    if problem.message_id == "invalid_parameter.from_missing":
        return words("The first day is missing. Enter both days.")
    if parameter == "method":
        return words(
            "You have no saved setting named “%(value)s”. Choose another method.", value=choice.method
        )
    if parameter == "anchor":
        return words("The anchor is not a time. Enter a date and a time of day.")
    typed = {"date": choice.date, "from": choice.first, "to": choice.last}.get(parameter, "")
    return words("“%(value)s” is not a date. Enter a day such as 2026-01-02.", value=typed)


def _too_long_for_trades(problem: ServiceError) -> bool:
    return problem.details.get("most") == MAX_DAYS_OF_TRADES
