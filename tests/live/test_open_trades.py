"""Profiles of the open session that need its trades: they equal those of the same session after its close."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.answers.test_profiles_of_trades import put, session_of, walk
from tests.live.engine_harness import (
    MINUTE,
    OWN_CLOCK,
    SECOND,
    EngineHarness,
    ScriptFeed,
    rows,
    run,
)
from tests.timeouts import until

from outcry.access.licences import Grant, Scope
from outcry.answers.profile_request import ProfileRequest
from outcry.app.installation import Installation
from outcry.base.errors import InvalidParameter, NotFound
from outcry.live.model import Frame, LogDamaged
from outcry.market.calendar import SessionKind
from outcry.trades.feed import (
    Amend,
    Bars,
    CaughtUp,
    Cursor,
    Ended,
    Event,
    Heartbeat,
    Trades,
)
from outcry.trades.records import BAR, Quality
from outcry.wire.profile import ProfileAnswer

DAY = date(2024, 7, 2)
SESSION, NIGHT = session_of(DAY, SessionKind.RTH), session_of(DAY, SessionKind.ETH)
OPEN, CLOSE = SESSION.open_ns, SESSION.close_ns
SCOPE = Scope(1, tuple(Grant("everyone", kind, (), None, None, 0) for kind in ("live", "completed")))
Parameters = dict[str, Any]

#: Requests that the ladder of a session cannot answer.
REQUESTS: dict[str, Parameters] = {
    "short brackets": {"bracket_minutes": 15},
    "delta": {"delta": True, "row_ticks": 3},
    "anchor": {"anchor_ns": OPEN + 47 * MINUTE + 3},
    "range": {"first": OPEN + 31 * MINUTE + 5, "last": OPEN + 200 * MINUTE, "delta": True},
    "split": {"split": (OPEN + 10 * MINUTE, OPEN + 77 * MINUTE + 1), "bracket_minutes": 15, "delta": True},
    "list": {"sessions": ((OPEN + 5, OPEN + MINUTE), (OPEN + 60 * MINUTE, OPEN + 90 * MINUTE)), "delta": True},
    "night and day": {"hours": "full", "bracket_minutes": 15, "delta": True, "split": (OPEN,)},
}  # fmt: skip


@dataclass
class SteppedFeed(ScriptFeed):
    """A feed that waits at each `None` of its script until the test has asked its questions."""

    paused: int = 0
    go: asyncio.Semaphore | None = None

    async def open(self, contract: Any, since: Cursor) -> AsyncIterator[Event]:
        self.opened.append(since)
        self.go = asyncio.Semaphore(0)
        for item in self.scripts[0]:
            if item is None:
                self.paused += 1
                await self.go.acquire()
            else:
                yield item  # type: ignore[misc]


def prior(installation: Installation, folder: Path) -> None:
    """Import the day before, because a live answer needs a prior session."""
    day = date(2024, 7, 1)
    put(
        installation,
        folder / "es.csv",
        {(day, SessionKind.RTH): walk(session_of(day, SessionKind.RTH), 3, "AB")},
    )


def sided(trades: Sequence[tuple[int, int, int, str]], first_id: int = 0) -> list[Trades]:
    """Return trades as a feed sends them, twenty at a time."""
    made = rows(*(trade[:3] for trade in trades), first_id=first_id)
    made["side"] = [trade[3].encode() for trade in trades]
    return [Trades(made[at : at + 20]) for at in range(0, len(made), 20)]


def ask(installation: Installation, **parameters: Any) -> ProfileAnswer:
    return installation.query.chosen_profile(SCOPE, "ESU4", ProfileRequest(**parameters), CLOSE).answer


def asked_live(
    installation: Installation, script: Sequence[Any], *questions: Callable[[EngineHarness], Any]
) -> list[Any]:
    """Play a script; at each pause of it ask the next question on another thread. Return all results."""

    async def work(harness: EngineHarness) -> list[Any]:
        feed = SteppedFeed([script], caps=replace(OWN_CLOCK, has_side=True))
        task = harness.engine.attach(0, feed)
        found: list[Any] = []
        for number, question in enumerate(questions, 1):
            await until(lambda number=number: feed.paused >= number)
            assert harness.channel().availability.live, harness.channel().availability
            found.append(await asyncio.to_thread(question, harness))
            assert feed.go is not None
            feed.go.release()
        await task
        await harness.engine.drained()
        return found

    return run(installation, work, installation.registry)


def comparable(found: ProfileAnswer) -> tuple[Any, ...]:
    """Return what must not change when the session ends."""
    return found.profile, found.rows, [(one.from_, one.to, one.profile, one.rows) for one in found.splits]


NIGHTLY, DAILY = walk(NIGHT, 1, "ABN"), walk(SESSION, 2, "ABN")
CAUGHT = CaughtUp(NIGHT.open_ns, Quality.TICKS)


@pytest.mark.parametrize("name", REQUESTS)
def test_the_open_session_equals_the_same_session_after_its_close(
    installation: Installation, tmp_path: Path, name: str
) -> None:
    """Ask when all its trades have arrived but the session is open, and again when it is stored."""
    prior(installation, tmp_path)
    parameters: Parameters = {"date": str(DAY)} | REQUESTS[name]
    if not {"first", "sessions"}.isdisjoint(parameters):
        del parameters["date"]
    script = [
        CAUGHT,
        *sided(NIGHTLY),
        *sided(DAILY),
        None,
        Heartbeat(CLOSE + 6 * MINUTE),
        Ended(CLOSE + 6 * MINUTE),
    ]
    (live,) = asked_live(installation, script, lambda _: ask(installation, **parameters))
    assert not live.window.sessions[-1].final
    stored = ask(installation, **parameters)
    assert stored.window.sessions[-1].final
    assert comparable(live) == comparable(stored)
    assert live.profile.delta == stored.profile.delta
    assert (live.profile.delta is not None) == bool(parameters.get("delta"))


def test_later_requests_include_the_new_trades(installation: Installation, tmp_path: Path) -> None:
    """Three trades by hand: after each, the volume delta and the number of 15-minute letters."""
    prior(installation, tmp_path)
    trades = [
        (OPEN + SECOND, 22000, 5, "B"),
        (OPEN + 16 * MINUTE, 22000, 2, "A"),
        (OPEN + 31 * MINUTE, 22001, 4, "B"),
    ]
    script: list[Any] = [CAUGHT]
    for trade in trades:
        script += [*sided([trade]), None]

    def question(_: EngineHarness) -> Any:
        found = ask(installation, bracket_minutes=15, delta=True)
        assert found.profile.delta is not None
        return found.profile.delta.total, {line.price: line.letters for line in found.rows}, found.develops

    found = asked_live(installation, [*script, Ended(OPEN + 40 * MINUTE)], question, question, question)
    assert found == [
        (5, {5500.0: "A"}, True),
        (3, {5500.0: "AB"}, True),
        (7, {5500.25: "C", 5500.0: "AB"}, True),
    ]


def test_cancelled_and_corrected_trades_do_not_count(installation: Installation, tmp_path: Path) -> None:
    """Of ten, one is cancelled (20 lots) and one corrected from 7 to 3 lots a tick higher."""
    prior(installation, tmp_path)
    trades = [(OPEN + n * SECOND, 22000, 20 if n == 4 else 7, "B") for n in range(10)]
    script = [
        CAUGHT, *sided(trades, first_id=1), None,
        Amend(5, "cancel", 0, 0), Amend(6, "correct", 22001 * 250_000_000, 3), Heartbeat(OPEN + MINUTE), None,
        Ended(OPEN + MINUTE),
    ]  # fmt: skip

    def question(_: EngineHarness) -> Any:
        return {line.price: (line.volume, line.delta) for line in ask(installation, delta=True).rows}

    before, after = asked_live(installation, script, question, question)
    assert before == {5500.0: (83, 83)}
    assert after == {5500.25: (3, 3), 5500.0: (56, 56)}


def test_a_part_of_the_open_session_that_has_ended_does_not_develop(
    installation: Installation, tmp_path: Path
) -> None:
    prior(installation, tmp_path)
    part = {"first": OPEN, "last": OPEN + 30 * MINUTE}
    until_noon = [trade for trade in DAILY if trade[0] < OPEN + 150 * MINUTE]
    split = {"date": str(DAY), "split": (OPEN + 30 * MINUTE, OPEN + 300 * MINUTE)}
    script = [CAUGHT, *sided(until_noon), None, Ended(OPEN + 150 * MINUTE)]

    def question(_: EngineHarness) -> Any:
        found, splits = ask(installation, **part), ask(installation, **split).splits
        return found.develops, [one.develops for one in splits], [one.profile is None for one in splits]

    ((develops, of_splits, empty),) = asked_live(installation, script, question)
    assert (develops, of_splits, empty) == (False, [False, True, True], [False, False, True])


def test_bars_of_the_open_session(installation: Installation, tmp_path: Path) -> None:
    """The first hour came as minute bars, then trades: brackets of 15 minutes, no delta, and no cut inside a bar."""
    prior(installation, tmp_path)
    bars = np.zeros(60, BAR)
    for n in range(60):
        price = (22000 + n // 15) * 250_000_000
        bars[n] = (OPEN + n * MINUTE, price, price + 250_000_000, price, price, 10)
    trades = [(OPEN + 61 * MINUTE, 22010, 3, "B")]
    script = [CAUGHT, Bars(bars, Quality.BARS_1M), *sided(trades), None, Ended(OPEN + 61 * MINUTE)]

    def question(_: EngineHarness) -> Any:
        found = ask(installation, bracket_minutes=15, delta=True)
        with pytest.raises(InvalidParameter) as caught:
            ask(installation, first=OPEN + 90 * SECOND, last=CLOSE)
        assert caught.value.message_id == "invalid_parameter.inside_bar"
        part = ask(installation, first=OPEN + 15 * MINUTE, last=OPEN + 30 * MINUTE)
        return found, part

    ((found, part),) = asked_live(installation, script, question)
    assert found.profile.delta is None
    # quarter 1 prints ticks 22000 and 22001 (letter A), quarter 2 22001 and 22002 (B), and so on; E is the trade
    assert {line.price * 4 - 22000: line.letters for line in found.rows if line.letters} == {
        0: "A", 1: "AB", 2: "BC", 3: "CD", 4: "D", 10: "E",
    }  # fmt: skip
    assert {line.price * 4 - 22000: line.volume for line in part.rows} == {1: 75, 2: 75}


def test_a_night_that_is_not_in_the_log_as_a_whole_is_refused(
    installation: Installation, tmp_path: Path
) -> None:
    """Only the day's trades can be read: the night is known as a whole session."""
    prior(installation, tmp_path)
    script = [CAUGHT, *sided(NIGHTLY), *sided(DAILY[:40]), None, Ended(DAILY[40][0])]

    def question(_: EngineHarness) -> Any:
        (channel,) = (seen.channel for seen in installation.registry.channels(SCOPE, "ES"))
        read = channel.read_log
        assert read is not None
        channel.read_log = lambda first: iter(list(read(first))[-1:])  # the day's trades, which begin a frame
        whole = ask(installation, date=str(DAY), hours="full")
        with pytest.raises(NotFound) as caught:
            ask(installation, date=str(DAY), hours="full", bracket_minutes=15)
        return [one.session for one in whole.window.sessions], caught.value.message_id

    assert asked_live(installation, script, question) == [(["eth", "rth"], "not_found.trades")]


def test_a_night_that_began_in_the_trade_date_before(installation: Installation, tmp_path: Path) -> None:
    """Its first 45 minutes were stored with that date and left the log. They are read from the tape."""
    prior(installation, tmp_path)
    ended = NIGHT.segments[0][1]
    early, rest = ([t for t in NIGHTLY if (t[0] < ended) is is_early] for is_early in (True, False))
    assert early
    script = [
        CAUGHT, *sided(early), Heartbeat(ended + 6 * MINUTE), *sided(rest), *sided(DAILY),
        Heartbeat(CLOSE - SECOND), None, Heartbeat(CLOSE + 6 * MINUTE), Ended(CLOSE + 6 * MINUTE),
    ]  # fmt: skip
    asked: Parameters = {"date": str(DAY), "hours": "full", "bracket_minutes": 15, "delta": True}

    def question(harness: EngineHarness) -> Any:
        (runner,) = harness.engine.runners.values()
        harness.log.drop(runner.name, runner.stream.needed_from)
        frames = harness.log.read(runner.name, 0)
        return next(frames).first, ask(installation, **asked)

    ((first, live),) = asked_live(installation, script, question)
    assert first > len(early)
    assert comparable(live) == comparable(ask(installation, **asked))
    # one day of overlap would count these trades twice
    assert sum(line.volume for line in live.rows) == sum(size for _, _, size, _ in (*NIGHTLY, *DAILY))


def test_a_log_that_cannot_be_read_is_refused(installation: Installation, tmp_path: Path) -> None:
    prior(installation, tmp_path)
    script = [CAUGHT, *sided(DAILY[:40]), None, Ended(DAILY[40][0])]

    def broken(_: int) -> Any:
        raise LogDamaged("the log is damaged")
        yield Frame(0, 1, b"")

    def question(_: EngineHarness) -> Any:
        (channel,) = (seen.channel for seen in installation.registry.channels(SCOPE, "ES"))
        channel.read_log = broken
        with pytest.raises(NotFound) as caught:
            ask(installation, bracket_minutes=15)
        assert ask(installation, delta=True).profile.delta is None
        return caught.value.message_id

    assert asked_live(installation, script, question) == ["not_found.trades"]
