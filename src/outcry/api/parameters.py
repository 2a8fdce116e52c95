"""Parse and validate query strings. A parameter may occur once and must be valid UTF-8.

Unknown parameters are ignored, so that clients can add their own. The OpenAPI document states the same formats.
"""

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from urllib.parse import unquote_to_bytes

from outcry.base.errors import InvalidParameter, MissingSymbol, UnknownSymbol
from outcry.market.methods import PRESETS
from outcry.market.saved_setting import is_own_name, is_reserved
from outcry.market.units import price_of_text

LONGEST_SYMBOL = 64
#: Maximum of a sequence number: the largest integer that JSON clients represent exactly.
LARGEST_NUMBER = 2**53 - 1
#: Maximum of entries in a list.
MOST_LISTED = 64
#: Trade dates of the years 1901 to 2099, and times with an offset, as regular expressions for the OpenAPI document.
_MONTH_DAYS = (
    "(0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)|02-(0[1-9]|1[0-9]|2[0-8])"
)
_LEAP_YEARS = "19(0[48]|[2468][048]|[13579][26])|20([02468][048]|[13579][26])"
DATE_PATTERN = f"((19(0[1-9]|[1-9][0-9])|20[0-9]{{2}})-({_MONTH_DAYS})|({_LEAP_YEARS})-02-29)"
_CLOCK = "([01][0-9]|2[0-3]):[0-5][0-9]"
EDGE_PATTERN = rf"{DATE_PATTERN}(T{_CLOCK}:[0-5][0-9](\.[0-9]{{1,6}})?(Z|[+-]{_CLOCK}))?"
SPAN_PATTERN = f"({DATE_PATTERN}|{EDGE_PATTERN}/{EDGE_PATTERN})"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", re.ASCII)
_NUMBER = re.compile(r"[0-9]{1,16}", re.ASCII)
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


def read_query(query: bytes, names: frozenset[str]) -> dict[str, str]:
    """Return the parameters with these names. Raises `InvalidParameter` for a repeated one or invalid UTF-8."""
    found: dict[str, str] = {}
    for part in query.split(b"&"):
        raw_name, _, raw_value = part.partition(b"=")
        try:
            name = unquote_to_bytes(raw_name.replace(b"+", b" ")).decode()
            if name not in names:
                continue
            value = unquote_to_bytes(raw_value.replace(b"+", b" ")).decode()
        except UnicodeDecodeError as error:
            raise InvalidParameter("invalid_parameter.encoding") from error
        if name in found:
            raise InvalidParameter("invalid_parameter.repeated", parameter=name)
        found[name] = value
    return found


def symbol_of(parameters: Mapping[str, str]) -> str:
    """Return the parameter `symbol`. Raises `MissingSymbol`, and `UnknownSymbol` for a malformed name."""
    given = parameters.get("symbol", "")
    if not given:
        raise MissingSymbol("missing_symbol")
    symbol = given.strip()
    if not symbol or len(given) > LONGEST_SYMBOL or _CONTROL.search(symbol):
        shown = _CONTROL.sub("�", given[:LONGEST_SYMBOL])
        raise UnknownSymbol("unknown_symbol", symbol=shown, suggestions=[])
    return symbol


def date_of(parameters: Mapping[str, str], name: str, *, may_be_empty: bool = True) -> str | None:
    """Return a date parameter, or None if it is missing or empty. Raises `InvalidParameter` for an invalid date."""
    text = parameters.get(name)
    if text is None or (may_be_empty and not text):
        return None
    if _DATE.fullmatch(text) is not None:
        try:
            date.fromisoformat(text)
        except ValueError:
            pass  # no such day, such as 30 February
        else:
            return text
    raise InvalidParameter("invalid_parameter.date", parameter=name)


def required_date_of(parameters: Mapping[str, str], name: str) -> str:
    """Return a date parameter. Raises `InvalidParameter` for a missing or invalid one."""
    found = date_of(parameters, name)
    if found is None:
        raise InvalidParameter("invalid_parameter.missing", parameter=name)
    return found


def price_of(parameters: Mapping[str, str], name: str) -> int | None:
    """Return a price in 10⁻⁹, exactly as it is written, or None if it is missing or empty.

    Raises `InvalidParameter` for text that is no decimal number, and for more than nine decimals.
    """
    text = parameters.get(name)
    if not text:
        return None
    found = price_of_text(text)
    if found is None:
        raise InvalidParameter("invalid_parameter.price", parameter=name)
    return found


def required_price_of(parameters: Mapping[str, str], name: str) -> int:
    """Return a price in 10⁻⁹. Raises `InvalidParameter` for a missing or invalid one."""
    found = price_of(parameters, name)
    if found is None:
        raise InvalidParameter("invalid_parameter.missing", parameter=name)
    return found


def any_symbol_of(parameters: Mapping[str, str]) -> str | None:
    """Return the parameter `symbol` unchanged; None if it is missing or blank.

    An unknown symbol is not an error here.
    """
    return parameters.get("symbol", "").strip() or None


def number_of(parameters: Mapping[str, str], name: str, least: int, most: int) -> int | None:
    """Return an integer between `least` and `most`, both inclusive, or None if it is missing.

    Raises `InvalidParameter` for any other value.
    """
    text = parameters.get(name)
    if text is None:
        return None
    if _NUMBER.fullmatch(text) is not None and least <= int(text) <= most:
        return int(text)
    raise InvalidParameter("invalid_parameter.number", parameter=name, least=least, most=most)


def choice_of(parameters: Mapping[str, str], name: str, choices: Sequence[str | int]) -> str | None:
    """Return a parameter that must be one of `choices`, or None if it is missing or empty.

    Raises `InvalidParameter` for any other value.
    """
    text = parameters.get(name)
    if not text:
        return None
    allowed = [str(choice) for choice in choices]
    if text in allowed:
        return text
    raise InvalidParameter("invalid_parameter.choice", parameter=name, choices=", ".join(allowed))


def method_of(parameters: Mapping[str, str], name: str) -> str | None:
    """Return the name of a preset, or a name that a user's own preset can have; None if it is missing or empty.

    Raises `InvalidParameter` for any other text.
    """
    text = parameters.get(name)
    if not text:
        return None
    if text in PRESETS or (is_own_name(text) and not is_reserved(text)):
        return text
    raise InvalidParameter("invalid_parameter.method", parameter=name)


def edge_of(parameters: Mapping[str, str], name: str) -> str | int | None:
    """Return a trade date as text, or a time with a UTC offset as ns UTC; None if the parameter is missing or empty.

    Raises `InvalidParameter` for any other text.
    """
    text = parameters.get(name)
    return _edge(text, name) if text else None


def spans_of(parameters: Mapping[str, str], name: str) -> tuple[tuple[str | int, str | int], ...]:
    """Return a list of trade dates and ranges `first/last`, separated by commas, as pairs of their ends.

    Raises `InvalidParameter` for any other text, and for more than `MOST_LISTED` entries.
    """
    found: list[tuple[str | int, str | int]] = []
    for entry in _listed(parameters, name):
        first, slash, last = entry.partition("/")
        start = _edge(first, name)
        if not slash and isinstance(start, int):
            raise InvalidParameter("invalid_parameter.edge", parameter=name)
        found.append((start, _edge(last, name) if slash else start))
    return tuple(found)


def instants_of(parameters: Mapping[str, str], name: str) -> tuple[int, ...]:
    """Return times with a UTC offset, separated by commas, as ns UTC.

    Raises `InvalidParameter` for any other text, and for more than `MOST_LISTED` entries.
    """
    return tuple(_instant(entry, name) for entry in _listed(parameters, name))


def _listed(parameters: Mapping[str, str], name: str) -> list[str]:
    text = parameters.get(name)
    entries = text.split(",") if text else []
    if len(entries) > MOST_LISTED:
        raise InvalidParameter("invalid_parameter.listed", parameter=name, most=MOST_LISTED)
    return entries


def _edge(text: str, name: str) -> str | int:
    if _DATE.fullmatch(text) is not None:
        return required_date_of({name: text}, name)
    try:
        return _instant(text, name)
    except InvalidParameter as problem:
        raise InvalidParameter("invalid_parameter.edge", parameter=name) from problem


def instant_of(parameters: Mapping[str, str], name: str) -> int | None:
    """Return a time with a UTC offset as ns UTC, to the microsecond, or None if it is missing or empty.

    Raises `InvalidParameter` for any other text.
    """
    text = parameters.get(name)
    return _instant(text, name) if text else None


def _instant(text: str, name: str) -> int:
    try:
        at = datetime.fromisoformat(text)
        if at.tzinfo is not None:
            return (at - _EPOCH) // timedelta(microseconds=1) * 1000
    except (ValueError, OverflowError):
        pass
    raise InvalidParameter("invalid_parameter.instant", parameter=name)
