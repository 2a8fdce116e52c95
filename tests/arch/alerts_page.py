"""Generate the page about alerts: `python tests/arch/alerts_page.py > docs/alerts.md`.

Types, severities, numbers, parameters and diagrams come from the tables of the program. A test compares the page in the
repository with the output.
"""

import sys
from collections.abc import Iterator
from enum import StrEnum
from types import ModuleType

from outcry.answers.alerts import PRICE_PARAMS
from outcry.market.alerts import ib_break, naked_poc, poor, va_accept, va_reject, va_test
from outcry.market.alerts.edge import LEAST_ARM_TICKS, TOLERANCE_TICKS
from outcry.market.alerts.machine import AlertType
from outcry.market.units import NANOS_PER_MINUTE

#: The families in the order in which one event fires their alerts.
FAMILIES: dict[str, ModuleType] = {
    "ib-break": ib_break, "va-reject": va_reject, "va-accept": va_accept, "naked-poc": naked_poc, "va-test": va_test,
    "poor": poor,
}  # fmt: skip


def _minutes(ns: int) -> int:
    return ns // NANOS_PER_MINUTE


_HEAD = f"""# Alerts

<!-- Made by `python tests/arch/alerts_page.py`; a test compares them. -->

Educational context, not advice: an alert says what was traded where, and never what to do about it.

Alerts are of the regular session (RTH) of the front contract. What they are measured against is frozen at its open:
value area and POC of the newest completed regular session, the naked POCs and poor extremes as they stood when it
completed ([levels](levels.md)). Only the initial balance is of the session itself. The same trades give the same alerts
with the same keys, live, in a replay and after a restart.

## Words

- **Edge**: VAH or VAL of the prior session. Both belong to value. *Beyond* VAH is above it, beyond VAL below; the low
  side mirrors the high side everywhere.
- **tol**: {TOLERANCE_TICKS} ticks. **arm**: the distance after which price counts as having been away, a tenth of the
  prior value area's width rounded up to a tick and at least {LEAST_ARM_TICKS} ticks.
- **Bracket**: 30 minutes from the open. **5-min bar**: five minutes from the open. Their *close* is the last trade in
  them; without a trade they have none. They are closed two seconds after their end, so that a trade a little late still
  counts; the alert is timed at the end.
- *Near*, *resting*, *spent* and the like are the phases of the diagrams below.

## The alerts

| Type | Severity | Fires | Again | `ref` |
|---|---|---|---|---|
"""

_WHEN: dict[AlertType, tuple[str, str, str]] = {
    AlertType.IB_BREAK_UP: (
        "At the first trade at least 1 tick above the high of the first hour, once that is over. Where nothing was "
        "traded in it, never.",
        "Not in this session.",
        "`IBH`",
    ),
    AlertType.IB_BREAK_DOWN: ("The same below its low.", "Not in this session.", "`IBL`"),
    AlertType.VA_REJECT_HIGH: (
        f"Price was inside, trades at least 1 tick above VAH, and a 5-min bar then closes at least 1 tick inside "
        f"within {_minutes(va_reject.WITHIN_NS)} minutes of the first such trade, before acceptance. After that time "
        f"price must first be back inside. A session that opens above waits until price was in value.",
        f"{_minutes(va_reject.REST_NS)} minutes later at the earliest, after a trade at least arm inside; "
        f"{va_reject.MOST} a session.",
        "`VAH`",
    ),
    AlertType.VA_REJECT_LOW: ("The same at VAL.", "The same.", "`VAL`"),
    AlertType.VA_ACCEPT_ABOVE: (
        "Two brackets, one right after the other, close at least 1 tick above VAH. It silences `va-reject-high` until "
        "a bracket closes back inside. If that has fired before, it also waits for what *Again* says of it.",
        f"After a bracket closed back inside, at the edge included; {va_accept.MOST} a session. "
        "Later ones are not told, and silence the reject as well.",
        "`VAH`",
    ),
    AlertType.VA_ACCEPT_BELOW: ("The same below VAL.", "The same.", "`VAL`"),
    AlertType.NAKED_POC: (
        "At a trade at the very price. A gap over it is no test.",
        "Never: it is naked no more.",
        "date it was made",
    ),
    AlertType.VA_TEST_HIGH: (
        f"At the first trade within tol of VAH after price was at least arm away, on either side. A session that opens "
        f"above waits until price was in value. Less than {_minutes(va_test.AFTER_REJECT_NS)} minutes after a reject "
        f"of the edge it latches without a word.",
        f"{_minutes(va_test.REST_NS)} minutes later at the earliest, after price was arm away again; "
        f"{va_test.MOST} a session.",
        "`VAH`",
    ),
    AlertType.VA_TEST_LOW: ("The same at VAL.", "The same.", "`VAL`"),
    AlertType.POOR_HIGH: (
        "At the first trade within tol of the extreme: `repaired` if it is at least 1 tick beyond, else `revisit`.",
        f"After a revisit, {_minutes(poor.REST_NS)} minutes later at the earliest, after price was arm away. Never "
        "once repaired; a trade beyond before it is armed again, or a jump over tol, repairs it without a word.",
        "date it was made",
    ),
    AlertType.POOR_LOW: ("The same at a poor low.", "The same.", "date it was made"),
}

_BETWEEN = """
`webhook-test` (info) is no alert of the market: it is what **Send test** sends, with price 0, `ref` `test` and no
`params`.

## Order, price and key

- What one event fires comes in the order of the table, and within a type by date, the older first.
- `price` is that of the trade that fired, or the close that confirmed.
- The key is `<symbol>:<type>:<epoch_milliseconds>`, in exchange time. If another alert of the type has that millisecond
  or a later one, the next free one is taken.

## What does not fire

- An alert latches from the very observation that fired it, not from a later price: a wick that is gone at once fires
  once.
- A trade that arrives out of order, or more than five seconds late, fires nothing. It still counts in the profile, in
  the close of its bar and bracket, and in the initial balance.
- While a feed catches up for the first time, everything latches and counts, and nothing is said: it was over before
  anyone could be told. After an interruption what was missed is told, with the keys it would have had.
- Without a completed session of the contract there is no value to measure against: only `ib-break-*` fires.

## Where only bars are known

A feed of bars tests with the range of each completed bar, and arms, returns and enters value with its close alone, for
within a bar nobody knows what came first. One thing is known: its open came first. So a session opens where its first
bar opens, whatever the range of that bar; `distanceAtOpen` counts from there too.

Time and price of the alert are those of the bar's close, which may be on the other side of the level. `reached` is the
price at which the bar met the level. The message names that price and the level, and the close only where a close fired
the alert. `observed` says whether a trade or a bar met the level ([decision 0036](decisions/0036-bar-alerts.md)).

## Parameters

`params` of every alert: `tick`, `rowTicks`, `vaSource` (`prior`), `sessionDate`, `contract`, `bracket` (the letter of
its bracket), `rule` (the edition of these rules), and those of its family, always all of them. What does not apply is
null.
"""

_MEANING = {
    "level": "the level the alert is about",
    "reached": "where the trade or bar met it: the outermost price beyond the level where the alert is about going "
    "beyond, else the price nearest to it; null of `va-reject-*` and `va-accept-*`, which closes fire",
    "observed": "what met it: `trade` or `bar`; null of the same",
    "ibHigh": "high of the first hour",
    "ibLow": "low of the first hour",
    "ibRange": "their distance",
    "breakTicks": "ticks beyond the broken side",
    "otherSideBroken": "whether the other side was broken before (or by the same bar)",
    "ext150": "half the range beyond the broken side, rounded away from it",
    "ext200": "the whole range beyond the broken side",
    "vah": "VAH of the prior session",
    "val": "VAL of the prior session",
    "poc": "POC of the prior session",
    "tolTicks": "`va-test-*`: tol",
    "approach": "`va-test-*`: side of the edge price came from, `inside` or `outside`; `va-reject-*`: `inside`",
    "probeExtreme": "`va-reject-*`: the outermost price of the probe",
    "probeTicks": "`va-reject-*`: its ticks beyond the edge",
    "secondsOutside": "`va-reject-*`: whole seconds from the first trade beyond to the close back inside",
    "brackets": "`va-accept-*`: the two brackets, counted from 0",
    "formedOn": "the trade date it was made",
    "ageSessions": "how many regular sessions ago; 1 is the newest completed",
    "basis": "`tpo`: the POC is that of the TPOs",
    "distanceAtOpen": "how far from it the session opened",
    "event": "`revisit` or `repaired`",
    "extremeTpos": "TPOs at the extreme when it was made",
    "tailRows": "rows of single prints from it inwards",
    "repairTicks": "ticks beyond it, 0 for a revisit",
}


def alert_rows() -> Iterator[str]:
    """Return a row for each alert type, in the order in which one event fires them."""
    for kind in AlertType:
        fires, again, ref = _WHEN[kind]
        yield f"| `{kind}` | {kind.severity} | {fires} | {again} | {ref} |\n"


def params_table() -> Iterator[str]:
    """Return the table of parameters by family; the families of value edges share one set."""
    known: dict[tuple[str, ...], list[str]] = {}
    for name, family in FAMILIES.items():
        known.setdefault(family.PARAMS, []).append(name)
    for params, names in known.items():
        yield f"\n**{', '.join(f'`{kind}`' for name in names for kind in _types(name))}**\n\n"
        yield "| name | kind | meaning |\n|---|---|---|\n"
        for param in params:
            yield f"| `{param}` | {_kind(param)} | {_MEANING[param]} |\n"


def _types(family: str) -> list[str]:
    return [kind.value for kind in AlertType if kind.startswith(family)]


def _kind(param: str) -> str:
    if param in PRICE_PARAMS:
        return "price"
    if param == "otherSideBroken":
        return "true or false"
    if param == "brackets":
        return "list of numbers"
    return "text" if param in {"observed", "approach", "formedOn", "basis", "event"} else "number"


def diagram(family: ModuleType) -> Iterator[str]:
    """Return the table of a family as a Mermaid state diagram, without transitions from a phase to itself."""
    phases: list[StrEnum] = list(family.Phase)
    yield f"```mermaid\nstateDiagram-v2\n    [*] --> {phases[0]}\n"
    for (of, sign), to in family.TRANSITIONS.items():
        if of is not to:
            yield f"    {of} --> {to}: {sign}\n"
    for phase in phases:
        if all(to is phase for (of, _), to in family.TRANSITIONS.items() if of is phase):
            yield f"    {phase} --> [*]\n"
    yield "```\n"


def page() -> str:
    """Return the page."""
    diagrams = (
        f"\n### {', '.join(f'`{kind}`' for kind in _types(name))}\n\n{''.join(diagram(family))}"
        for name, family in FAMILIES.items()
    )
    return (
        _HEAD
        + "".join(alert_rows())
        + _BETWEEN
        + "".join(params_table())
        + "\n## The machines\n\nOne for each edge, side or level. Times are exchange time. What leads from a phase to "
        "itself is left out.\n" + "".join(diagrams)
    )


if __name__ == "__main__":
    sys.stdout.write(page())
