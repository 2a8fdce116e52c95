"""Alerts as lines of a list: what happened in words, and how far price was and is from the level it was about.

Rules kept: the distance then is that of the alert itself; the distance now is of the newest price of a live answer, and
where there is none, none is shown. An alert has arrived late by its own record, whoever looks at it and when.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from outcry.core.units import NANOS_PER_SECOND
from outcry.services import alert_phrases as phrases
from outcry.services.alerts import AlertEntry
from outcry.services.answers import LevelsAnswer
from outcry.web.figures import age_text, instant_ns
from outcry.web.pen import Pen

#: What a product is answered now, by its root; None where nothing of it may be seen.
Answers = Mapping[str, LevelsAnswer | None]

#: An alert recorded so much later than what it tells of has arrived late: its feed had been away, and caught up.
LATE_NS = 5 * NANOS_PER_SECOND


@dataclass(frozen=True, slots=True)
class AlertLine:
    """One alert. `at`: the exchange's time, `mine`: the reader's, with its day;
    `here`: the same, its day only where it is not the trade date. `level`: price of what it was measured against, None
    where that is not known any more; `then`, `now`: price less level, `now` None without a live price. `late`: how much
    later than what it tells of it was recorded, empty where that is not late. `delayed`: its symbol is answered from a
    completed session now."""

    entry: AlertEntry
    pen: Pen
    at: str
    mine: str
    here: str
    event: str
    sentence: str
    level: float | None
    then: float | None
    now: float | None
    late: str
    delayed: bool


def alert_lines(
    alerts: Sequence[AlertEntry], pen_of: Callable[[str], Pen], answers: Answers
) -> list[AlertLine]:
    """Lines of alerts, in their order. pen_of: writes for a product."""
    return [_line(alert, pen_of(alert.symbol), answers.get(alert.symbol)) for alert in alerts]


def _line(alert: AlertEntry, pen: Pen, answer: LevelsAnswer | None) -> AlertLine:
    words, at_ns = pen.clock.words, instant_ns(alert.at)
    level = phrases.level_of(alert)
    if level is None and answer is not None:
        level = _listed(alert, answer)
    last = answer.last_price if answer is not None else None
    return AlertLine(
        entry=alert,
        pen=pen,
        at=pen.clock.time(at_ns),
        mine=pen.clock.mine_too(at_ns),
        here=pen.clock.mine_on(at_ns, alert.trade_date),
        event=phrases.event(alert, words),
        sentence=phrases.sentence(alert, words, pen.price, pen.day),
        level=level,
        then=None if level is None else alert.price - level,
        now=None if level is None or last is None else last - level,
        late=_late(alert, at_ns),
        delayed=answer is not None and not answer.live,
    )


def _late(alert: AlertEntry, at_ns: int) -> str:
    after_ns = instant_ns(alert.recorded_at) - at_ns if alert.recorded_at else 0
    return age_text(after_ns) if after_ns > LATE_NS else ""


def _listed(alert: AlertEntry, answer: LevelsAnswer) -> float | None:
    """The level of an alert of an older version, which names only the day it was made, while it is still listed."""
    lists = {"naked-poc": answer.naked_pocs, "poor-high": answer.poor_highs, "poor-low": answer.poor_lows}
    dated = lists.get(alert.type, [])
    return next((level.price for level in dated if level.date == alert.ref), None)
