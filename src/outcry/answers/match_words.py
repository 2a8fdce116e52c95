"""Settings of another platform in words: names of hours, and why levels differ.

Each text is looked up by its English wording; `locale/<language>/match.po` has the translations.
"""

from collections.abc import Callable, Mapping

from outcry.market.matching.setting import DAY, VARIANT, ZONE, Value

#: Translates a text.
Words = Callable[[str], str]

HOURS: Mapping[str, str] = {
    "rth": "the regular hours",
    "full": "the overnight and the regular session",
    "trade_date": "the exchange's whole trading day",
    "overnight": "the overnight session",
}
#: Hours whose name has a beginning and a value.
HOURS_OF: Mapping[str, str] = {
    VARIANT: "the regular hours “%(value)s”",
    DAY: "the calendar day in the time zone %(value)s",
    ZONE: "the clock times of the regular hours, but in the time zone %(value)s",
}

_CLOSES = "It counts each bar only at its close. Ours counts every price between its low and its high."
#: A sentence for each value of a part; `*` stands for any other value. %(value)s: the setting's; %(ours)s: ours.
REASONS: Mapping[str, Mapping[str, str]] = {
    "contract": {"*": "It shows the contract %(value)s. Ours is %(ours)s."},
    "shift": {
        "*": "Its prices are %(value)s ticks above ours, as in a back-adjusted continuous contract. A negative number "
        "means below.",
    },
    "hours": {"*": "It counts %(value)s. Ours counts %(ours)s."},
    "basis": {"volume": "It counts volume (contracts). Ours counts time (TPOs)."},
    "placement": {"close_up": _CLOSES},
    "bars": {
        "tpo": "Its brackets have %(value)s minutes. Ours have 30.",
        "*": "Its bars have %(value)s minutes. Ours uses the finest data recorded.",
    },
    "row": {"*": "Its rows are %(value)s ticks high. Ours are 1 tick high."},
    "rowCount": {
        "*": "It divides the range of the session into %(value)s rows, from the low upwards. Ours are 1 tick high.",
    },
    "label": {
        "bottom": "It shows the lowest price of a row as its level.",
        "middle": "It shows the middle of a row as its level.",
        "edges": "It shows the middle of a row as POC, and the outer edges of the rows as VAL and VAH.",
    },
    "pocTie": {
        "lowest": "If several rows have the largest count, it takes the lowest.",
        "centre_high": "If several rows have the largest count, it takes the higher of two equally near to the centre.",
        "centre_low": "If several rows have the largest count, it takes the lower of two equally near to the centre.",
        "middle_row": "If several rows have the largest count, it takes the one nearest to the middle row.",
        "half_length": "If several rows have the largest count, it takes the one nearest to half the number of rows.",
    },
    "percent": {"*": "Its value area contains %(value)s %% of the profile. Ours contains %(ours)s %%."},
    "step": {"1": "Its value area grows by one row at a time. Ours grows by two."},
    "pair": {"trim": "Its value area stops inside a pair of rows. Ours adds both rows of a pair."},
    "sideTie": {
        "down": "If both sides of its value area are equal, it adds the lower one. Ours adds the upper one.",
        "both": "If both sides of its value area are equal, it adds both. Ours adds the upper one.",
    },
    "stop": {
        "gt": "Its value area stops above the percentage. Ours stops as soon as the percentage is reached.",
        "floor": "It rounds the target of its value area down. Ours rounds it up.",
    },
    "rows": {"printed": "It leaves out rows without trades. Ours counts them as zero."},
}  # fmt: skip


def hours_text(hours: str, words: Words) -> str:
    """Return hours in words."""
    for beginning, text in HOURS_OF.items():
        if hours.startswith(beginning):
            return words(text) % {"value": hours.removeprefix(beginning)}
    return words(HOURS[hours])


def reason(part: str, value: Value, ours: Value, words: Words, *, basis: str, placement: str) -> str:
    """Return why levels differ, as a sentence.

    part: name of a field of `MatchedSetting` on the wire. basis, placement: those of the setting, which tell what the
    length of bars means.
    """
    texts = REASONS[part]
    key = str(value)
    if part == "bars" and (basis, placement) == ("tpo", "range"):
        key = "tpo"
    text = words(texts.get(key) or texts["*"])
    if part == "hours":
        value, ours = hours_text(str(value), words), hours_text(str(ours), words)
    return text % {"value": value, "ours": ours}


def wire_name(part: str) -> str:
    """Return the name of a field on the wire: `side_tie` is `sideTie`."""
    first, *more = part.split("_")
    return first + "".join(word.capitalize() for word in more)
