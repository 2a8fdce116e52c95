"""A product without a pause between two regular sessions: the next one opens before the last one can be stored."""

from dataclasses import replace
from datetime import UTC, date, datetime

from tests.live.engine_harness import MINUTE, EngineHarness, ScriptFeed, rows, run

from outcry.app.installation import Installation
from outcry.market.calendar import Calendar
from outcry.market.instruments import Contract, Universe
from outcry.market.reference import parse_products
from outcry.market.reference_hours import parse_hours
from outcry.trades.feed import CaughtUp, Ended, Event, Trades
from outcry.trades.records import Quality
from outcry.trades.reference_tables import Reference

BTC = Contract("BTC-PERP")
#: Midnight between two trade dates.
MIDNIGHT = int(datetime(2024, 7, 4, tzinfo=UTC).timestamp()) * 1_000_000_000


PRODUCTS = """\
root,name,exchange,sector,parent,tick,multiplier,unit,months,serial,skipped,zone,settle,expiry_rule,notice_rule,\
roll_sessions,projectx,aliases,source,checked_on,note
BTC-PERP,Bitcoin perpetual,OWN,perpetuals,,0.25,1,dollars,,,,UTC,,,,,,,test,2026-11-24,
"""
HOURS = """\
roots,variant,days,valid_from,valid_to,globex,rth,source,checked_on,note
BTC-PERP,,Mon-Sun,2023-01-01,,00:00-24:00,00:00-24:00,test,2026-11-24,
"""


def reference() -> Reference:
    products = parse_products(PRODUCTS)
    calendar = Calendar(products, parse_hours(HOURS, products), ())
    return Reference(Universe(products, calendar.hours.is_business_day), calendar)


def test_the_session_that_ended_becomes_prior_of_the_one_that_runs(installation: Installation) -> None:
    """2024-07-03 rises to 22,143; four minutes after midnight there is no prior yet, six minutes after it is that
    session. The trades of the new session are unchanged."""
    installation = replace(installation, reference=reference())
    whole_day = Trades(rows(*((MIDNIGHT + (n - 1440) * MINUTE, 22_000 + n // 10) for n in range(1440))))
    caught = CaughtUp(MIDNIGHT - 1440 * MINUTE, Quality.TICKS)

    async def play(harness: EngineHarness, *after: Event) -> date | None:
        feed = ScriptFeed([[caught, whole_day, *after]], contract=BTC)
        await harness.engine.attach(0, feed)
        await harness.engine.drained()
        view = harness.channel(BTC).view()
        assert view is not None
        assert view.opening.open_ns == MIDNIGHT
        assert (view.profile.low, view.profile.high) == (22_000, 22_001)
        prior = view.opening.prior
        assert prior is None or prior.high == 22_143
        return prior.trade_date if prior else None

    first = Trades(rows((MIDNIGHT, 22_000), (MIDNIGHT + MINUTE, 22_001)))
    assert run(installation, lambda harness: play(harness, first, Ended(MIDNIGHT + 4 * MINUTE))) is None
    later = run(installation, lambda harness: play(harness, first, Ended(MIDNIGHT + 6 * MINUTE)))
    assert later == date(2024, 7, 3)
