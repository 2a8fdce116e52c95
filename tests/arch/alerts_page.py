"""Generate the page about alerts: `python -m tests.arch.alerts_page > docs/reference/alerts.md`.

Types, severities, numbers, parameters and diagrams come from the tables of the program. A test compares the page in the
repository with the output.
"""

import sys
from collections.abc import Iterator

from tools.state_tables import FAMILIES, alert_diagram

from outcry.answers.alerts import PRICE_PARAMS
from outcry.market.alerts import poor, va_accept, va_reject, va_test
from outcry.market.alerts.edge import LEAST_ARM_TICKS, TOLERANCE_TICKS
from outcry.market.alerts.machine import AlertType
from outcry.market.units import NANOS_PER_MINUTE


def _minutes(ns: int) -> int:
    return ns // NANOS_PER_MINUTE


_HEAD = f"""# Alerts

<!-- Made by `python -m tests.arch.alerts_page`; a test compares them. -->

Educational context, not advice: an alert says what was traded where, and never what to do about it.

An alert reports that price did something at a level. Alerts fire only in the regular session (RTH) of the front
contract. Their levels are the value area and POC of the newest completed regular session, and the naked POCs and poor
extremes at the end of that session ([levels](../explanation/levels.md)). These levels are fixed when the new
session opens. Only the initial balance comes from the new session itself. The same trades give the same alerts with
the same keys: live, in a replay and after a restart.

## Terms

- **Edge**: VAH or VAL of the prior session. Both prices belong to the value area. *Beyond* an edge means above VAH or
  below VAL. *Inside* means the other side of the edge, where the value area is. Rules for the low side mirror those
  for the high side.
- **tol** (tolerance): {TOLERANCE_TICKS} ticks. A trade at most this far from a level counts as a test of it.
- **arm**: how far price must move away from a level before another test of the level counts: a tenth of the width of
  the prior value area, rounded up to a tick, and at least {LEAST_ARM_TICKS} ticks.
- **Bracket**: a period of 30 minutes, counted from the open. **5-min bar**: a period of five minutes, counted from
  the open. The *close* of either is the price of its last trade; a period without a trade has no close. The service
  determines the close two seconds after the end of the period, so that it includes slightly late trades. The alert
  has the time of the end.
- Words such as *near*, *resting* and *spent* are states in the diagrams below.

## The alerts

| Type | Severity | Fires | Again | `ref` |
|---|---|---|---|---|
"""

_WHEN: dict[AlertType, tuple[str, str, str]] = {
    AlertType.IB_BREAK_UP: (
        "At the first trade after the first hour that is at least 1 tick above the high of that hour. If nothing "
        "traded in the first hour, it never fires.",
        "Not in this session.",
        "`IBH`",
    ),
    AlertType.IB_BREAK_DOWN: (
        "As `ib-break-up`, but below the low of the first hour.",
        "Not in this session.",
        "`IBL`",
    ),
    AlertType.VA_REJECT_HIGH: (
        f"Price was inside, and then trades at least 1 tick above VAH. Within {_minutes(va_reject.WITHIN_NS)} minutes "
        f"of this trade, a 5-min bar closes at least 1 tick inside, and no acceptance came before. After these "
        f"minutes, price must first return inside. If the session opens above VAH, price must first trade in value.",
        f"{_minutes(va_reject.REST_NS)} minutes later at the earliest, after a trade at least arm inside; at most "
        f"{va_reject.MOST} in a session.",
        "`VAH`",
    ),
    AlertType.VA_REJECT_LOW: ("As `va-reject-high`, but at VAL.", "As `va-reject-high`.", "`VAL`"),
    AlertType.VA_ACCEPT_ABOVE: (
        "Two consecutive brackets close at least 1 tick above VAH. From then on `va-reject-high` cannot fire until a "
        "bracket closes back inside. If `va-reject-high` has fired before, the conditions of its column *Again* must "
        "also be met.",
        f"After a bracket has closed back inside or at the edge; at most {va_accept.MOST} in a session. "
        "Later acceptances fire no alert, but prevent the reject as well.",
        "`VAH`",
    ),
    AlertType.VA_ACCEPT_BELOW: ("As `va-accept-above`, but below VAL.", "As `va-accept-above`.", "`VAL`"),
    AlertType.NAKED_POC: (
        "At a trade at exactly the price of the POC. If price jumps over it, no alert fires.",
        "Never: the POC is no longer naked.",
        "trade date of the POC",
    ),
    AlertType.VA_TEST_HIGH: (
        f"At the first trade within tol of VAH after price was at least arm away, on either side. If the session opens "
        f"above VAH, price must first trade in value. Less than {_minutes(va_test.AFTER_REJECT_NS)} minutes after a "
        f"reject of the same edge, the test fires no alert, but counts as fired for the pause before the next one.",
        f"{_minutes(va_test.REST_NS)} minutes later at the earliest, after price was arm away again; at most "
        f"{va_test.MOST} in a session.",
        "`VAH`",
    ),
    AlertType.VA_TEST_LOW: ("As `va-test-high`, but at VAL.", "As `va-test-high`.", "`VAL`"),
    AlertType.POOR_HIGH: (
        "At the first trade within tol of the extreme. The event is `repaired` if the trade is at least 1 tick beyond "
        "the extreme, else `revisit`.",
        f"After a revisit, {_minutes(poor.REST_NS)} minutes later at the earliest, after price was arm away. Never "
        "after a repair. If price trades beyond the extreme before that, or jumps beyond tol, the extreme is repaired "
        "without an alert.",
        "trade date of the extreme",
    ),
    AlertType.POOR_LOW: (
        "As `poor-high`, but at a poor low.",
        "As `poor-high`.",
        "trade date of the extreme",
    ),
}

_BETWEEN = """
The type `webhook-test` (info) is not a market alert. The button **Send test** of a webhook sends it,
with price 0, `ref` `test` and no `params`.

## Order, price and key

- If one trade or bar fires several alerts, they are in the order of the table; alerts of one type are sorted by the
  date of their level, the oldest first.
- `price` is the price of the trade that fired the alert, or of the close that confirmed it.
- The key is `<symbol>:<type>:<epoch_milliseconds>`, in exchange time. If another alert of the type has that millisecond
  or a later one, the key uses the next free millisecond.

## What does not fire

- After an alert has fired, it fires again only under the conditions of the column *Again*. So a short spike through a
  level fires once, even if price returns at once.
- A trade that arrives out of order, or more than five seconds late, fires nothing. It still counts in the profile, in
  the close of its bar and bracket, and in the initial balance.
- The first history that a feed sends fires nothing, because these events were over before anyone could be informed.
  But such trades change the state of levels: a POC at which one of them traded is no longer naked. History after an
  interruption fires the missed alerts, with the keys they would have had.
- Without a completed session of the contract there is no prior value area: only `ib-break-*` fires.

## Feeds that send bars

Some feeds send bars instead of trades. Inside a bar only the time of its open is known, not the order of the other
prices. So for a test of a level, every price between low and high of a completed bar counts as traded. Whether price
has moved away from a level (by *arm*), or has returned into the value area, depends on the bar's close alone. A
session opens at the open of its first bar; `distanceAtOpen` is measured from there too.

Time and `price` of the alert are those of the bar's close, which may be on the other side of the level. `reached` is
the price at which the bar reached the level. The message names `reached` and the level; it names the close only if a
close fired the alert. `observed` says whether a trade or a bar fired it ([decision
0036](../decisions/0036-bar-alerts.md)).

## Parameters

`params` of every alert has `tick`, `rowTicks`, `vaSource` (`prior`), `sessionDate`, `contract`, `bracket` (the letter
of the bracket in which it fired) and `rule` (the edition of these rules). It also has all parameters that the table
of its type lists; those that do not apply to the alert are null.
"""

_MEANING = {
    "level": "the level the alert is about",
    "reached": "price at which the trade or bar reached the level. For alerts about a price beyond the level, the "
    "price furthest beyond it, else the price nearest to it. Null for `va-reject-*` and `va-accept-*`, because a close "
    "fires them",
    "observed": "`trade` or `bar`: which of them reached the level; null if `reached` is null",
    "ibHigh": "high of the first hour",
    "ibLow": "low of the first hour",
    "ibRange": "distance from `ibLow` to `ibHigh`",
    "breakTicks": "how many ticks the trade is beyond the broken side",
    "otherSideBroken": "whether the other side of the initial balance was broken before, or by the same bar",
    "ext150": "price half of `ibRange` beyond the broken side, rounded away from it",
    "ext200": "price the whole `ibRange` beyond the broken side",
    "vah": "VAH of the prior session",
    "val": "VAL of the prior session",
    "poc": "POC of the prior session",
    "tolTicks": "`va-test-*`: the tolerance (*tol*), in ticks",
    "approach": "`va-test-*`: the side of the edge from which price came, `inside` or `outside`; "
    "`va-reject-*`: `inside`",
    "probeExtreme": "`va-reject-*`: the price furthest beyond the edge before the close back inside",
    "probeTicks": "`va-reject-*`: how many ticks `probeExtreme` is beyond the edge",
    "secondsOutside": "`va-reject-*`: whole seconds from the first trade beyond to the close back inside",
    "brackets": "`va-accept-*`: the two brackets, counted from 0",
    "formedOn": "the trade date of the session that made the level",
    "ageSessions": "how many regular sessions ago the level was made; 1 is the newest completed session",
    "basis": "`tpo`: the POC is the price with the most TPOs, not the most volume",
    "distanceAtOpen": "distance from the open of this session to the POC",
    "event": "`revisit` or `repaired`",
    "extremeTpos": "TPOs at the extreme in the session that made it",
    "tailRows": "rows with a single TPO, from the extreme inwards",
    "repairTicks": "how many ticks the trade is beyond the extreme; 0 for a revisit",
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


def diagram(family: str) -> Iterator[str]:
    """Return the states of a family as a picture, and as a table that opens on a click."""
    found = alert_diagram(family)
    yield f"![{found.title}](../images/{found.file_name})\n\n<details markdown>\n<summary>As a table</summary>\n\n"
    yield "| state | observation | next state |\n|---|---|---|\n"
    for of, to, sign in found.transitions:
        yield f"| {of} | {sign} | {to} |\n"
    yield "\n</details>\n"


def page() -> str:
    """Return the page."""
    diagrams = (
        f"\n### {', '.join(f'`{kind}`' for kind in _types(name))}\n\n{''.join(diagram(name))}"
        for name in FAMILIES
    )
    return (
        _HEAD
        + "".join(alert_rows())
        + _BETWEEN
        + "".join(params_table())
        + "\n## State diagrams\n\nEach edge, side of the initial balance, POC or poor extreme has a state of its own. "
        "Times are exchange time. The diagrams leave out observations that do not change the state. A dot leads to the "
        "first state, a ring marks a final one, and transitions that fire an alert are orange.\n"
        + "".join(diagrams)
    )


if __name__ == "__main__":
    sys.stdout.write(page())
