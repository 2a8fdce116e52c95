"""The overnight session stays visible during the regular session that follows it, across restarts."""

from tests.live.engine_harness import MINUTE, SECOND, EngineHarness, Trades, play_feed, rows, run
from tests.live.test_engine import CAUGHT, NIGHT, OPEN

from outcry.app.installation import Installation
from outcry.live.stream import Stream
from outcry.market.ladder import Ladder
from outcry.trades.feed import Ended, Event, Heartbeat

#: Two brackets of the overnight session at 5499 to 5500, and one of the next day at 5510.
NIGHTLY = [Trades(rows((NIGHT + SECOND, 21_996, 3))), Trades(rows((NIGHT + 31 * MINUTE, 22_000, 4)))]
DAILY = Trades(rows((OPEN + SECOND, 22_040, 1)))


def shown(harness: EngineHarness) -> Ladder | None:
    view = harness.channel().view()
    assert view is not None
    return view.overnight_ladder


def asked(installation: Installation, *events: Event) -> Ladder | None:
    async def work(harness: EngineHarness) -> Ladder | None:
        await play_feed(harness, [CAUGHT, *NIGHTLY, *events, Ended(OPEN + MINUTE)])
        return shown(harness)

    return run(installation, work)


def test_the_overnight_is_visible_from_the_first_regular_trade(installation: Installation) -> None:
    found = asked(installation, DAILY)
    assert found is not None
    assert (found.low_ticks, found.volume[0], found.volume[-1]) == (21_996, 3, 4)
    assert [bracket.index for bracket in found.brackets] == [2, 3]  # 0 and 1 lie before the pause at 17:00


def test_the_overnight_is_visible_after_its_fold_ended(installation: Installation) -> None:
    found = asked(installation, DAILY, Heartbeat(OPEN + 30 * MINUTE))
    assert found is not None
    assert found.volume[-1] == 4


def test_during_the_overnight_session_only_it_is_visible(installation: Installation) -> None:
    assert asked(installation) is None


def test_the_overnight_survives_a_restart(installation: Installation) -> None:
    """Restored from a snapshot taken after the overnight ladder was released; an older snapshot is read too."""
    asked(installation, DAILY, Heartbeat(OPEN + 30 * MINUTE))

    async def again(harness: EngineHarness) -> tuple[Ladder | None, bytes, int]:
        stream = next(iter(harness.engine.runners.values())).stream
        return shown(harness), stream.dump(), stream.position

    found, held, position = run(installation, again)
    assert found is not None
    assert found.volume[-1] == 4
    stream = Stream(250_000_000, lambda _: [])
    assert stream.restore(position, held)
    assert stream.night is not None
    assert stream.night[1] == found


def test_the_overnight_of_another_day_is_not_visible(installation: Installation) -> None:
    next_day = 24 * 60 * MINUTE
    found = asked(
        installation, DAILY, Heartbeat(OPEN + next_day), Trades(rows((OPEN + next_day + SECOND, 22_044)))
    )
    assert found is None
