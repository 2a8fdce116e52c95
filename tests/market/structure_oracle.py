"""Oracle of the structural alerts: finds what fires by searching the whole tape.

It uses no phases, tables or stored state, and is written from rules §6, not from the alert machines. A tape is a list
of events: `Observation`s as shown, `Bar` and `Bracket` as they close, and `Revised` when the initial balance changes.
"""

from dataclasses import dataclass

from tests.market.structure_tape import MINUTE, at

from outcry.market.alerts.machine import AlertType, Observation
from outcry.market.opening import Opening


@dataclass(frozen=True)
class Bar:
    at_ns: int
    close: int


@dataclass(frozen=True)
class Bracket:
    index: int
    at_ns: int
    close: int | None


@dataclass(frozen=True)
class Revised:
    ib: tuple[int, int] | None


Event = Observation | Bar | Bracket | Revised
#: Index on the tape, alert type, timestamp, price, label or date.
Found = tuple[int, AlertType, int, int, str]
NEVER = 10**9


def mirrored(tape: list[Event], edge: int, upper: bool) -> list[tuple[int, Observation, int, int, int]]:
    """Return each observation with its index and its ticks beyond the edge: innermost, outermost, close."""
    sign = 1 if upper else -1
    found = []
    for k, seen in enumerate(tape):
        if isinstance(seen, Observation):
            ends = sorted((sign * (seen.low - edge), sign * (seen.high - edge)))
            found.append((k, seen, ends[0], ends[1], sign * (seen.close - edge)))
    return found


def opens_beyond(first: Observation, edge: int, upper: bool) -> bool:
    """Return whether the first price is beyond the edge (rules §6); of a bar, its open."""
    return first.opened > edge if upper else first.opened < edge


def first_inside(tape: list[Event], of: Opening, edge: int, upper: bool) -> int:
    """Return the index of the first observation at which the edge may fire."""
    rows = mirrored(tape, edge, upper)
    if rows and not opens_beyond(rows[0][1], edge, upper):
        return rows[0][0]
    return next((k for k, seen, *_ in rows if of.prior.val <= seen.close <= of.prior.vah), NEVER)


def acceptances(tape: list[Event], edge: int, upper: bool) -> list[tuple[int, Bracket]]:
    """Return every acceptance of the session, whether it fires or not: its index and its last bracket."""
    sign = 1 if upper else -1
    brackets = [(k, e) for k, e in enumerate(tape) if isinstance(e, Bracket)]

    def beyond(n: int) -> bool:
        close = brackets[n][1].close
        return close is not None and sign * (close - edge) >= 1

    def back(n: int) -> bool:
        close = brackets[n][1].close
        return close is not None and sign * (close - edge) <= 0

    found: list[int] = []
    for n in range(1, len(brackets)):
        since_back = not found or any(back(m) for m in range(found[-1] + 1, n))
        if beyond(n) and beyond(n - 1) and since_back:
            found.append(n)
    return [brackets[n] for n in found]


def accepts(tape: list[Event], edge: int, upper: bool) -> list[Found]:
    """Return the first two acceptances, which are the ones that fire."""
    kind = AlertType.VA_ACCEPT_ABOVE if upper else AlertType.VA_ACCEPT_BELOW
    label = "VAH" if upper else "VAL"
    return [(k, kind, e.at_ns, e.close, label) for k, e in acceptances(tape, edge, upper)[:2]]


def rejects(tape: list[Event], of: Opening, edge: int, upper: bool) -> list[Found]:
    """Search ahead from each index where the edge is armed for the poke and its outcome."""
    sign = 1 if upper else -1
    arm = arm_of(of)
    rows = mirrored(tape, edge, upper)
    accepted = [k for k, _ in acceptances(tape, edge, upper)]

    def return_after(place: int) -> int:
        return next(
            (
                k
                for k, e in enumerate(tape)
                if k > place
                and isinstance(e, Bracket)
                and e.close is not None
                and sign * (e.close - edge) <= 0
            ),
            NEVER,
        )

    def deep_after(place: int) -> int:
        """Return the index where price is an arm inside and half an hour has passed since the newest reject."""
        rested = found[-1][2] + 30 * MINUTE
        return next(
            (j for j, s, _, _, close in rows if j > place and s.at_ns >= rested and close <= -arm), NEVER
        )

    found: list[Found] = []
    ready = first_inside(tape, of, edge, upper)
    # The first observation may itself be a poke.
    at_once = bool(rows) and ready == rows[0][0] and not opens_beyond(rows[0][1], edge, upper)
    after = -1  # index of the last acceptance processed
    while len(found) < 2:
        disarmed = next((k for k in accepted if k > after), NEVER)
        if ready >= NEVER and disarmed >= NEVER:
            break
        poke = next(
            ((k, s) for k, s, _, far, _ in rows if (k > ready or (at_once and k == ready)) and far >= 1), None
        )
        at_once = False
        outcome, fired = (
            NEVER,
            None,
        )  # next index at which the edge is armed, and the reject that fires before it
        if poke and poke[0] < disarmed:
            k0, seen0 = poke
            for k, e in enumerate(tape):
                if k <= k0 or not isinstance(e, Bar) or e.at_ns <= seen0.slot_ns:
                    continue
                inside = sign * (e.close - edge) <= -1
                if e.at_ns - seen0.at_ns > 30 * MINUTE:
                    place = k
                    outcome = (
                        k if inside else next((j for j, *_, close in rows if j > k and close <= -1), NEVER)
                    )
                    break
                if inside:
                    place = k
                    kind = AlertType.VA_REJECT_HIGH if upper else AlertType.VA_REJECT_LOW
                    fired = (k, kind, e.at_ns, e.close, "VAH" if upper else "VAL")
                    rested = e.at_ns + 30 * MINUTE
                    outcome = next(
                        (j for j, s, _, _, close in rows if j > k and s.at_ns >= rested and close <= -arm),
                        NEVER,
                    )
                    break
            else:
                place = NEVER
            if fired and place < disarmed:
                found.append(fired)
        if disarmed < outcome or outcome >= NEVER:
            if disarmed >= NEVER:
                break
            after, ready = disarmed, return_after(disarmed)
            if found:  # acceptance does not reset the conditions for another reject
                ready = deep_after(ready)
        else:
            ready = outcome
    return found


def tests(tape: list[Event], of: Opening, edge: int, upper: bool) -> list[Found]:
    arm = arm_of(of)
    rows = mirrored(tape, edge, upper)
    start = first_inside(tape, of, edge, upper)
    rejected = [(k, when) for k, _, when, *_ in rejects(tape, of, edge, upper)]
    latched = (-1, -NEVER * MINUTE)
    found: list[Found] = []
    for k, seen, inner, outer, _ in rows:
        away = any(
            abs(close) >= arm and s.at_ns >= latched[1] + 15 * MINUTE
            for j, s, _, _, close in rows
            if max(start, latched[0]) <= j < k
        )
        if not (away and inner <= 2 and outer >= -2 and len(found) < 3):
            continue
        latched = (k, seen.at_ns)
        if not any(j < k and seen.at_ns - when < 5 * MINUTE for j, when in rejected):
            kind = AlertType.VA_TEST_HIGH if upper else AlertType.VA_TEST_LOW
            found.append((k, kind, seen.at_ns, seen.close, "VAH" if upper else "VAL"))
    return found


def breaks(tape: list[Event], upper: bool) -> list[Found]:
    ib = None
    for k, seen in enumerate(tape):
        if isinstance(seen, Revised):
            ib = seen.ib
        elif (
            isinstance(seen, Observation)
            and seen.slot_ns >= at(60)
            and ib
            and (seen.high > ib[0] if upper else seen.low < ib[1])
        ):
            kind = AlertType.IB_BREAK_UP if upper else AlertType.IB_BREAK_DOWN
            return [(k, kind, seen.at_ns, seen.close, "IBH" if upper else "IBL")]
    return []


def naked(tape: list[Event], of: Opening) -> list[Found]:
    found: list[Found] = []
    for level in of.carried.naked_pocs:
        hits = [
            (k, AlertType.NAKED_POC, e.at_ns, e.close, str(level.made_on))
            for k, e in enumerate(tape)
            if isinstance(e, Observation) and e.low <= level.price_ticks <= e.high
        ]
        found += hits[:1]
    return found


def poor(tape: list[Event], of: Opening, upper: bool) -> list[Found]:
    arm = arm_of(of)
    found: list[Found] = []
    for level in of.carried.poor_highs if upper else of.carried.poor_lows:
        rows = mirrored(tape, level.price_ticks, upper)
        last = None
        for k, seen, inner, outer, _ in rows:
            if any(o >= 1 for j, _, _, o, _ in rows if j < k):
                break  # repaired
            away = last is None or any(
                close <= -arm and s.at_ns >= last[1] + 60 * MINUTE
                for j, s, _, _, close in rows
                if last[0] <= j < k
            )
            if away and inner <= 2 and outer >= -2:
                kind = AlertType.POOR_HIGH if upper else AlertType.POOR_LOW
                found.append((k, kind, seen.at_ns, seen.close, str(level.made_on)))
                last = (k, seen.at_ns)
    return found


def arm_of(of: Opening) -> int:
    width = of.prior.vah - of.prior.val if of.prior else 0
    return max(8, (width + 9) // 10)


def alerts(tape: list[Event], of: Opening) -> list[Found]:
    """Return everything that fires, in the order of its alerts."""
    found = [*breaks(tape, upper=True), *breaks(tape, upper=False), *naked(tape, of)]
    for upper in (True, False):
        found += poor(tape, of, upper)
        if of.prior:
            edge = of.prior.vah if upper else of.prior.val
            found += [
                *accepts(tape, edge, upper),
                *rejects(tape, of, edge, upper),
                *tests(tape, of, edge, upper),
            ]
    order = list(AlertType)
    return sorted(found, key=lambda one: (one[0], order.index(one[1]), one[4]))
