"""Parses symbols of products and contracts in all known formats, without knowing which products exist.

`read_symbol` accepts any text of any length and returns a `Named` or None in linear time.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import SequenceMatcher

MONTH_CODES = "FGHJKMNQUVXZ"
#: Longest symbol; longer text is not parsed.
LONGEST = 40
#: Minimum similarity of a suggestion in hundredths, and the bonus for the same first letter.
NEAR, SAME_INITIAL = 50, 25


@dataclass(frozen=True, slots=True)
class Named:
    """Result of parsing a symbol: a product (`month` None) or a contract.

    digits: number of digits with which the symbol writes the year. vendor: `projectx` if `name` is ProjectX's code for
    the product; empty if it is a ticker.
    """

    name: str
    month: int | None = None
    year: int = 0
    digits: int = 0
    vendor: str = ""


#: Longest ticker of a product with delivery months.
LONGEST_ROOT = 6
_ROOT = rf"(?P<root>[A-Z0-9]{{1,{LONGEST_ROOT}}}?)"
_KEY = rf"{_ROOT}(?P<code>[{MONTH_CODES}])(?P<year>[0-9]{{4}}|[0-9]{{1,2}})"
_MONTH = r"(?P<month>0[1-9]|1[0-2])"

#: Prefixes and suffixes of venues: `CME_MINI:ES1!`, `/ESZ26:XCME`, `ESZ2026.XCME`.
_VENUE_BEFORE = re.compile(r"(?:CME|CME_MINI|CBOT|CBOT_MINI|NYMEX|NYMEX_MINI|COMEX|COMEX_MINI|GLBX):")
_VENUE_AFTER = re.compile(r"(?::|\.|@)(?:XCME|XCBT|XNYM|XCEC|CME|CBOT|NYMEX|COMEX|GLBX)$")

_SPELLINGS = tuple(
    re.compile(pattern)
    for pattern in (
        rf"{_KEY}",  # ESZ6, ESZ26, ESZ2026: the exchange, Databento, Rithmic, Tradovate, tastytrade
        rf"{_ROOT}",  # ES: the display ticker
        rf"{_KEY}[_-](?:FUT_)?(?:CME|CBOT|NYMEX|COMEX)",  # ESZ26_FUT_CME, ESZ26-CME: Sierra Chart
        rf"{_ROOT}\.FUT",  # ES.FUT: Databento, all contracts
        rf"{_ROOT}\.[VCN]\.[0-9]",  # ES.v.0: Databento, continuous
        rf"{_ROOT}[0-9]!",  # ES1!: TradingView, continuous
        rf"{_ROOT}=F",  # ES=F: Yahoo, continuous
        rf"{_ROOT} ##-##",  # NinjaTrader, continuous
        rf"{_ROOT} {_MONTH}-(?P<year>[0-9]{{4}}|[0-9]{{2}})",  # ES 12-26: NinjaTrader
        rf"{_ROOT}[ _+-]?(?P<year>20[0-9]{{2}}){_MONTH}",  # ES_201312, ES 202612: LEAN, Interactive Brokers
    )
)
_PROJECTX = re.compile(
    rf"(?:CON\.)?F\.US\.(?P<root>[A-Z0-9]{{2,5}})(?:\.(?P<code>[{MONTH_CODES}])(?P<year>[0-9]{{1,2}}))?"
)


def read_symbol(symbol: str) -> Named | None:
    """Parse one symbol in any known format; return None for anything else. Ignores case and surrounding blanks."""
    text = symbol.strip() if len(symbol) <= 4 * LONGEST else ""
    if not text or len(text) > LONGEST or not text.isascii():
        return None
    text = text.upper()
    if found := _PROJECTX.fullmatch(text):
        return _named(found, vendor="projectx")
    text = text.removeprefix("./").lstrip("/@")
    text = _VENUE_BEFORE.sub("", text, count=1) if ":" in text else text
    text = _VENUE_AFTER.sub("", text)
    matches = (spelling.fullmatch(text) for spelling in _SPELLINGS)
    return next((_named(found) for found in matches if found), None)


def _named(found: re.Match[str], vendor: str = "") -> Named:
    parts = found.groupdict()
    month = parts.get("month")
    code = parts.get("code")
    if not (month or code):
        return Named(parts["root"], vendor=vendor)
    number = int(month) if month else MONTH_CODES.index(code or "") + 1
    return Named(parts["root"], number, int(parts["year"]), len(parts["year"]), vendor)


def close_names(symbol: str, vocabulary: Mapping[str, str]) -> tuple[str, ...]:
    """Return the roots of at most five products whose ticker, alias or name is similar to a text.

    The most similar is first. vocabulary: maps these words to roots.
    """
    text = symbol.strip()[:LONGEST].upper()
    words = [word[:12] for word in re.split(r"[^A-Z0-9]+", text) if word][:4]
    words += [key["root"] for word in words[:1] if (key := re.fullmatch(_KEY, word))]
    nearness: dict[str, int] = {}
    for word in words:
        matcher = SequenceMatcher(b=word, autojunk=False)
        for name, root in vocabulary.items():
            length = len(name) + len(word)
            if 200 * min(len(name), len(word)) < NEAR * length:
                continue  # its length differs too much
            matcher.set_seq1(name)
            percent = 200 * sum(block.size for block in matcher.get_matching_blocks()) // length
            if percent >= NEAR:
                score = percent + (SAME_INITIAL if name[0] == word[0] else 0)
                nearness[root] = max(score, nearness.get(root, 0))
    return tuple(sorted(nearness, key=lambda root: -nearness[root]))[:5]
