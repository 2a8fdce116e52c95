"""Alerts as rows of a list: the event in words, and the distance of price from the alert's level.

"Distance at alert" is measured from the price that fired the alert. "Distance now" is measured from the last price, and
is empty for a symbol without a live feed. An alert is late if it was recorded long after its event.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from outcry.answers import alert_phrases as phrases
from outcry.market.units import NANOS_PER_SECOND
from outcry.web.formatter import Formatter
from outcry.web.number_format import age_text, instant_ns
from outcry.wire.alerts import AlertEntry
from outcry.wire.answers import LevelsAnswer

#: The current answer for each product root; None without access.
Answers = Mapping[str, LevelsAnswer | None]

#: An alert is late if it was recorded this long after its event, because its feed was catching up.
LATE_NS = 5 * NANOS_PER_SECOND


@dataclass(frozen=True, slots=True)
class AlertLine:
    """One alert as a row. `at`: its time at the exchange. `mine`: that time in the reader's time zone, with date.

    `here`: like `mine`, but with the date only if it differs from the trade date. `level`: price of the alert's level,
    None if unknown. `then`, `now`: price minus level at the alert and now; `now` is None without a live price. `late`:
    delay between event and record, empty if not late. `delayed`: whether the symbol is currently not live.
    """

    entry: AlertEntry
    formatter: Formatter
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
    alerts: Sequence[AlertEntry], formatter_of: Callable[[str], Formatter], answers: Answers
) -> list[AlertLine]:
    """Return alerts as rows of a list, in the same order.

    formatter_of: returns the formatter for a product. answers: the current levels of the products.
    """
    return [_line(alert, formatter_of(alert.symbol), answers.get(alert.symbol)) for alert in alerts]


def _line(alert: AlertEntry, formatter: Formatter, answer: LevelsAnswer | None) -> AlertLine:
    words, at_ns = formatter.clock.words, instant_ns(alert.at)
    level = phrases.level_of(alert)
    if level is None and answer is not None:
        level = _listed(alert, answer)
    last = answer.last_price if answer is not None else None
    return AlertLine(
        entry=alert,
        formatter=formatter,
        at=formatter.clock.time(at_ns),
        mine=formatter.clock.mine_too(at_ns),
        here=formatter.clock.mine_on(at_ns, alert.trade_date),
        event=phrases.event(alert, words),
        sentence=phrases.sentence(alert, words, formatter.price, formatter.day),
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
    """Return the price of an alert's level from the current levels, if the level is still listed there.

    This is for alerts recorded by an older version, which stored only the level's date.
    """
    lists = {"naked-poc": answer.naked_pocs, "poor-high": answer.poor_highs, "poor-low": answer.poor_lows}
    dated = lists.get(alert.type, [])
    return next((level.price for level in dated if level.date == alert.ref), None)
