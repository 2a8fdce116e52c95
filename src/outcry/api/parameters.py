"""Query strings into parameters, strictly: each at most once, UTF-8, dates as dates.

Rule kept: parameters nobody asked for are ignored, so that a client may add its own; the forms here are
those the OpenAPI document states.
"""

import re
from collections.abc import Mapping
from datetime import date
from urllib.parse import unquote_to_bytes

from outcry.base.errors import InvalidParameter, MissingSymbol, UnknownSymbol

LONGEST_SYMBOL = 64
#: More alerts than this there will never be.
LARGEST_NUMBER = 2**53 - 1
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", re.ASCII)
_NUMBER = re.compile(r"[0-9]{1,16}", re.ASCII)
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


def read_query(query: bytes, names: frozenset[str]) -> dict[str, str]:
    """Return the parameters asked for; raise `InvalidParameter` for a repeated one or one that is not
    UTF-8."""
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
    """Return the symbol; raise `MissingSymbol`, or `UnknownSymbol` for what can be no name at all."""
    given = parameters.get("symbol", "")
    if not given:
        raise MissingSymbol("missing_symbol")
    symbol = given.strip()
    if not symbol or len(given) > LONGEST_SYMBOL or _CONTROL.search(symbol):
        shown = _CONTROL.sub("�", given[:LONGEST_SYMBOL])
        raise UnknownSymbol("unknown_symbol", symbol=shown, suggestions=[])
    return symbol


def date_of(parameters: Mapping[str, str], name: str, *, may_be_empty: bool = True) -> str | None:
    """Return a date parameter, None where it is absent or empty; raise `InvalidParameter` where it is no
    date."""
    text = parameters.get(name)
    if text is None or (may_be_empty and not text):
        return None
    if _DATE.fullmatch(text) is not None:
        try:
            date.fromisoformat(text)
        except ValueError:
            pass  # the thirtieth of February
        else:
            return text
    raise InvalidParameter("invalid_parameter.date", parameter=name)


def any_symbol_of(parameters: Mapping[str, str]) -> str | None:
    """Return the symbol as it came, None where it is absent or blank: here one that names nothing is no error."""
    return parameters.get("symbol", "").strip() or None


def number_of(parameters: Mapping[str, str], name: str, least: int, most: int) -> int | None:
    """Return a whole number, None where it is absent; raise `InvalidParameter` for anything else, or where it is
    outside its bounds (both included)."""
    text = parameters.get(name)
    if text is None:
        return None
    if _NUMBER.fullmatch(text) is not None and least <= int(text) <= most:
        return int(text)
    raise InvalidParameter("invalid_parameter.number", parameter=name, least=least, most=most)
