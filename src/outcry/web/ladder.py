"""The ladder of levels beside the chart: every level of the answers, high to low, with the price in its place.

Rules kept: one rung a level, so that a reader finds each by its name; a level made on an earlier day says which, and
how many sessions ago; what a level is called is said in the reader's language, its price never changed.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from outcry.services.answers import DatedLevel, SessionLevels
from outcry.web.language import Words
from outcry.web.outlook import Outlook

#: How many sessions ago a level of that date was made.
Age = Callable[[str], int]


@dataclass(frozen=True, slots=True)
class Rung:
    """One level. `kind`: how it is drawn (`poc`, `va`, `vpoc`, `ib`, `extension`, `overnight`, `prior`, `naked`,
    `poor`, `extreme`, `single`). `date`, `age`: of a level made on an earlier day, and sessions ago. `naked`, `poor`:
    it is that too. `last`: no level but the price itself."""

    price: float
    kind: str
    name: str
    date: str = ""
    age: int = 0
    naked: bool = False
    poor: bool = False
    last: bool = False


def rungs(outlook: Outlook, words: Words, age: Age) -> list[Rung]:
    """Every rung, high to low; the price before levels at the same one."""
    levels, session = outlook.levels, outlook.session
    found = [
        *(_developing(outlook, words) if outlook.live else _completed(session, words)),
        *(_balance(outlook, words) if outlook.regular else ()),
        *_overnight(outlook, words),
        *(_prior(outlook, words) if outlook.live else ()),
        *_dated(levels.naked_pocs, "naked", words("Naked POC"), outlook, age),
        *_dated(levels.poor_highs, "poor", words("Poor high"), outlook, age),
        *_dated(levels.poor_lows, "poor", words("Poor low"), outlook, age),
        Rung(outlook.reference, "last", words("Last") if outlook.live else words("Closing price"), last=True),
    ]
    return sorted(found, key=lambda rung: (-rung.price, not rung.last))


def _developing(outlook: Outlook, words: Words) -> Iterator[Rung]:
    """Value so far; `d` for developing stands before the trade's own names."""
    session = outlook.session
    yield Rung(session.poc, "poc", "dPOC")
    yield Rung(session.vah, "va", "dVAH")
    yield Rung(session.val, "va", "dVAL")
    yield Rung(session.vpoc, "vpoc", "dVPOC")
    if outlook.regular:
        yield Rung(session.high, "extreme", words("High so far"), poor=session.poor_high)
        yield Rung(session.low, "extreme", words("Low so far"), poor=session.poor_low)


def _completed(session: SessionLevels, words: Words) -> Iterator[Rung]:
    """Value of the completed session that a delayed answer describes."""
    yield Rung(session.poc, "poc", "POC")
    yield Rung(session.vah, "va", "VAH")
    yield Rung(session.val, "va", "VAL")
    yield Rung(session.vpoc, "vpoc", "VPOC")
    yield Rung(session.high, "extreme", words("Session high"), poor=session.poor_high)
    yield Rung(session.low, "extreme", words("Session low"), poor=session.poor_low)


def _balance(outlook: Outlook, words: Words) -> Iterator[Rung]:
    """The initial balance once its hour is over, and of each side's multiples those reached and the next one."""
    session = outlook.session
    if not session.ib_complete:
        return
    yield Rung(session.ib_high, "ib", "IBH")
    yield Rung(session.ib_low, "ib", "IBL")
    if session.ib_high == session.ib_low:
        return
    for upwards in (True, False):
        for extension in outlook.context.ib_extensions:
            price = extension.up if upwards else extension.down
            name = words("IB %(percent)s%% up") if upwards else words("IB %(percent)s%% down")
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
    """The session before, `p` for prior; what of it is naked or poor says so here and not once more."""
    levels, prior = outlook.levels, outlook.prior
    naked = prior is not None and any(level.date == prior.date for level in levels.naked_pocs)
    yield Rung(levels.prior.poc, "prior", "pPOC", naked=naked)
    yield Rung(levels.prior.vah, "prior", "pVAH")
    yield Rung(levels.prior.val, "prior", "pVAL")
    if prior is not None:
        poor_high = any(level.date == prior.date for level in levels.poor_highs)
        poor_low = any(level.date == prior.date for level in levels.poor_lows)
        yield Rung(prior.high, "prior", words("Prior high"), poor=poor_high)
        yield Rung(prior.low, "prior", words("Prior low"), poor=poor_low)
        yield Rung(prior.close_price, "prior", words("Prior close"))


def _dated(levels: list[DatedLevel], kind: str, name: str, outlook: Outlook, age: Age) -> Iterator[Rung]:
    """Levels of earlier days, but for those of the day whose own rungs say it already."""
    prior = outlook.prior
    said = (prior.date if prior else "") if outlook.live else outlook.session.date
    for level in levels:
        if level.date != said:
            yield Rung(level.price, kind, name, level.date, age(level.date))
