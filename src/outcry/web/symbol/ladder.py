"""The list of levels beside the chart (the ladder): all levels by price, highest first, and the last price among them.

Each level has its own rung (row). A level of an earlier session shows its date and its age in sessions. Names are
translated; prices have the same format in every language.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from outcry.web.language import Words
from outcry.web.number_format import hour_text, instant_ns
from outcry.web.symbol.outlook import Outlook
from outcry.wire.answers import DatedLevel, SessionLevels

#: Returns the age of a level in sessions, given its date.
Age = Callable[[str], int]


@dataclass(frozen=True, slots=True)
class Rung:
    """One level in the list of levels beside the chart.

    `kind`: its style (`poc`, `va`, `vpoc`, `ib`, `extension`, `overnight`, `prior`, `naked`, `poor`, `extreme`,
    `single`). `date` and `age` (in sessions): set for levels of earlier sessions. `naked`, `poor`: whether a level of
    another kind is one of these too. `repaired`: it was poor until today. `touched`: when a POC that was naked until
    today traded. `last`: whether this is the last price itself.
    """

    price: float
    kind: str
    name: str
    date: str = ""
    age: int = 0
    naked: bool = False
    poor: bool = False
    repaired: bool = False
    touched: str = ""
    last: bool = False


def rungs(outlook: Outlook, words: Words, age: Age) -> list[Rung]:
    """Return all rungs by price, highest first. The last price comes before levels at the same price."""
    session = outlook.session
    found = [
        *(_developing(outlook, words) if outlook.live else _completed(session, words)),
        *(_balance(outlook, words) if outlook.regular else ()),
        *_overnight(outlook, words),
        *(_prior(outlook, words) if outlook.live else ()),
        *_naked(outlook, words, age),
        *_naked_of_periods(outlook, words, age),
        *_poor(outlook, words, age),
        Rung(outlook.reference, "last", words("Last") if outlook.live else words("Closing price"), last=True),
    ]
    return sorted(found, key=lambda rung: (-rung.price, not rung.last))


def _developing(outlook: Outlook, words: Words) -> Iterator[Rung]:
    """Yield rungs for the open session's value area, which still develops. Their names start with `d`."""
    session = outlook.session
    yield Rung(session.poc, "poc", "dPOC")
    yield Rung(session.vah, "va", "dVAH")
    yield Rung(session.val, "va", "dVAL")
    yield Rung(session.vpoc, "vpoc", "dVPOC")
    if outlook.regular:
        yield Rung(session.high, "extreme", words("High so far"), poor=session.poor_high)
        yield Rung(session.low, "extreme", words("Low so far"), poor=session.poor_low)


def _completed(session: SessionLevels, words: Words) -> Iterator[Rung]:
    """Yield rungs for the levels of a completed session, which the page describes if the data is delayed."""
    yield Rung(session.poc, "poc", "POC")
    yield Rung(session.vah, "va", "VAH")
    yield Rung(session.val, "va", "VAL")
    yield Rung(session.vpoc, "vpoc", "VPOC")
    yield Rung(session.high, "extreme", words("Session high"), poor=session.poor_high)
    yield Rung(session.low, "extreme", words("Session low"), poor=session.poor_low)


def _balance(outlook: Outlook, words: Words) -> Iterator[Rung]:
    """Yield rungs for the initial balance and, once it is complete, its extensions.

    On each side these are the extensions that price has reached, and the next one.
    """
    session = outlook.session
    whole = session.ib_complete or session.final
    yield Rung(session.ib_high, "ib", "IBH" if whole else words("IBH so far"))
    yield Rung(session.ib_low, "ib", "IBL" if whole else words("IBL so far"))
    if not whole or session.ib_high == session.ib_low:
        return
    for upwards in (True, False):
        for extension in outlook.context.ib_extensions:
            price = extension.up if upwards else extension.down
            name = (
                words("Upper IB extension %(percent)s%%")
                if upwards
                else words("Lower IB extension %(percent)s%%")
            )
            yield Rung(price, "extension", name % {"percent": extension.percent})
            if not (extension.up_reached if upwards else extension.down_reached):
                break


def _overnight(outlook: Outlook, words: Words) -> Iterator[Rung]:
    overnight = outlook.context.overnight
    if overnight is None:
        return
    so_far = outlook.live and not outlook.regular
    yield Rung(overnight.high, "overnight", words("ONH so far") if so_far else "ONH")
    yield Rung(overnight.low, "overnight", words("ONL so far") if so_far else "ONL")


def _prior(outlook: Outlook, words: Words) -> Iterator[Rung]:
    """Yield rungs for the prior session's levels, whose names start with `p`. Some may also be naked or poor."""
    levels, prior = outlook.levels, outlook.prior
    made_on = prior.date if prior is not None else ""
    touched = _touches(outlook, words).get(made_on, "")
    naked = any(level.date == made_on for level in levels.naked_pocs) and not touched
    yield Rung(levels.prior.poc, "prior", "pPOC", naked=naked, touched=touched)
    yield Rung(levels.prior.vah, "prior", "pVAH")
    yield Rung(levels.prior.val, "prior", "pVAL")
    if prior is not None:
        chart = outlook.chart
        for price, name, poor, repaired in (
            (prior.high, words("Prior high"), levels.poor_highs, chart.repaired_highs),
            (prior.low, words("Prior low"), levels.poor_lows, chart.repaired_lows),
        ):
            is_repaired = _has(repaired, made_on)
            yield Rung(
                price, "prior", name, poor=_has(poor, made_on) and not is_repaired, repaired=is_repaired
            )
        yield Rung(prior.close_price, "prior", words("Prior close"))


def _naked(outlook: Outlook, words: Words, age: Age) -> Iterator[Rung]:
    """Yield rungs for POCs of earlier sessions: those still naked, and those that were naked until today."""
    touches = _touches(outlook, words)
    for level in _earlier(outlook.levels.naked_pocs, outlook):
        touched = touches.get(level.date, "")
        kind, name = ("prior", "POC") if touched else ("naked", words("Naked POC"))
        yield Rung(level.price, kind, name, level.date, age(level.date), touched=touched)


def _naked_of_periods(outlook: Outlook, words: Words, age: Age) -> Iterator[Rung]:
    """Yield rungs for the naked POCs of weeks and months, by the last session of their period."""
    for pocs, naked, spent in (
        (outlook.context.naked_weekly_pocs, words("Naked weekly POC"), words("Weekly POC")),
        (outlook.context.naked_monthly_pocs, words("Naked monthly POC"), words("Monthly POC")),
    ):
        for poc in pocs:
            touched = words("touched today") if outlook.touched_today(poc.price) else ""
            kind, name = ("prior", spent) if touched else ("naked", naked)
            yield Rung(poc.price, kind, name, poc.to, age(poc.to), touched=touched)


def _poor(outlook: Outlook, words: Words, age: Age) -> Iterator[Rung]:
    """Yield rungs for poor highs and lows of earlier sessions. Those repaired today are marked."""
    levels, chart = outlook.levels, outlook.chart
    for name, poor, repaired in (
        (words("Poor high"), levels.poor_highs, chart.repaired_highs),
        (words("Poor low"), levels.poor_lows, chart.repaired_lows),
    ):
        for level in _earlier(poor, outlook):
            is_repaired = _has(repaired, level.date)
            yield Rung(level.price, "poor", name, level.date, age(level.date), repaired=is_repaired)


def _touches(outlook: Outlook, words: Words) -> dict[str, str]:
    """Return when the open session first traded at each naked POC (exchange time), by the date of the POC's session."""
    zone = outlook.product.zone
    return {
        poc.date: words("touched %(time)s", time=hour_text(instant_ns(poc.at), zone))
        if poc.at
        else words("touched today")
        for poc in outlook.chart.touched_pocs
    }


def _has(levels: Sequence[DatedLevel], made_on: str) -> bool:
    return any(level.date == made_on for level in levels)


def _earlier(levels: Sequence[DatedLevel], outlook: Outlook) -> Iterator[DatedLevel]:
    """Yield levels of earlier sessions, except of the session whose high, low and POC the list has already."""
    prior = outlook.prior
    shown = (prior.date if prior else "") if outlook.live else outlook.session.date
    return (level for level in levels if level.date != shown)
