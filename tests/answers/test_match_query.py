"""`Query.match`: which data is searched, who may search it, and how the answer describes the settings."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest
from tests.answers.test_query import GRANTED, put, session
from tests.installations import Write

from outcry.access.licences import Scope
from outcry.answers.match_words import HOURS, REASONS, reason
from outcry.answers.matching import GivenPrices
from outcry.answers.query import Query
from outcry.app.installation import Installation
from outcry.base.errors import NoLicensedSource, NotFound, Occupied
from outcry.market.calendar import SessionKind
from outcry.market.units import PRICE_SCALE
from outcry.recordings.tape import TapeFolder
from outcry.sessions.store_model import TapeFile
from outcry.trades.records import Quality, Rows
from outcry.wire.match import MatchAnswer

DAY = "2024-07-02"
#: The levels of `session(5500)` under our own setting, worked out in `test_query`.
OURS = (5500.0, 5501.0, 5499.0)


def given(poc: float, vah: float, val: float) -> GivenPrices:
    return GivenPrices(*(int(price * PRICE_SCALE) for price in (poc, vah, val)), None)


def ask(
    installation: Installation, levels: tuple[float, float, float], scope: Scope = GRANTED
) -> MatchAnswer:
    now_ns = installation.clock.now_ns()
    return installation.query.match(scope, "ES", DAY, given(*levels), now_ns).answer


def test_our_own_levels_have_our_own_setting(installation: Installation, ticks: Write) -> None:
    put(installation, ticks("20240702", *session(5500)))
    answer = ask(installation, OURS)
    first = answer.matches[0]
    assert (answer.exact, answer.recording, first.distance, first.differences) == (True, "trades", 0, [])
    assert (first.poc, first.vah, first.val) == OURS
    assert first.preset == "dalton"
    assert answer.ours is not None
    assert (answer.ours.distance, answer.ours.hours) == (0, "rth")
    # the file begins half an hour before the regular open, so the night is not recorded
    assert set(answer.searched) >= {"rth", "rth:cash"}
    assert set(answer.not_searched) >= {"overnight", "full", "trade_date", "day@UTC"}


def test_a_difference_is_a_sentence(installation: Installation, ticks: Write) -> None:
    """One lot trades at each of five prices, but 400 at the lowest in one half-hour: only volume has its POC there."""
    lines = session(5500)
    lines[20:20] = [("16:10:00", "5498", 400)]
    lines.sort()
    put(installation, ticks("20240702", *lines))
    first = ask(installation, (5498.0, 5498.0, 5498.0)).matches[0]
    assert first.basis == "volume"
    sentences = {difference.part: difference.reason for difference in first.differences}
    assert sentences["basis"] == "It counts volume (contracts). Ours counts time (TPOs)."


def test_without_its_trades_the_stored_profile_is_searched(
    installation: Installation, ticks: Write, tmp_path: Path
) -> None:
    put(installation, ticks("20240702", *session(5500)))
    for file in (tmp_path / "data" / "tape").rglob("*.dbn.zst"):
        file.unlink()
    answer = ask(installation, OURS)
    assert (answer.exact, answer.recording, answer.searched) == (True, "profile", ["rth"])


def test_what_the_caller_may_not_see_is_not_searched(installation: Installation, ticks: Write) -> None:
    put(installation, ticks("20240702", *session(5500)))
    with pytest.raises(NoLicensedSource):
        ask(installation, OURS, Scope(7, ()))
    (grant,) = GRANTED.grants[:1]
    row = next(row for row in installation.store.all_sessions() if row.kind is SessionKind.RTH)
    # the session is released, the rest of its trade date is not: the stored profile answers
    embargo_ns = installation.clock.now_ns() - row.close_ns - 1
    answer = ask(installation, OURS, Scope(7, (replace(grant, embargo_ns=embargo_ns),)))
    assert (answer.exact, answer.recording) == (True, "profile")


def test_a_date_without_a_session(installation: Installation, ticks: Write) -> None:
    put(installation, ticks("20240702", *session(5500)))
    with pytest.raises(NotFound):
        installation.query.match(GRANTED, "ES", "2024-07-03", given(*OURS), installation.clock.now_ns())


def test_one_search_runs_at_a_time(installation: Installation, ticks: Write, tmp_path: Path) -> None:
    put(installation, ticks("20240702", *session(5500)))
    now_ns, refused = installation.clock.now_ns(), list[Occupied]()

    def read(files: Iterable[TapeFile], quality: Quality) -> Rows:
        with pytest.raises(Occupied) as second:
            query.match(GRANTED, "ES", DAY, given(*OURS), now_ns)
        refused.append(second.value)
        return TapeFolder(tmp_path / "data" / "tape").read_all(files, quality)

    reference = installation.reference
    query = Query(installation.store, reference.universe, reference.calendar, read_tape=read)
    assert query.match(GRANTED, "ES", DAY, given(*OURS), now_ns).answer.exact
    assert refused[0].details == {"retry_after_ms": 2000}
    assert query.match(GRANTED, "ES", DAY, given(*OURS), now_ns).answer.exact  # the first has ended


def test_every_reason_has_its_values() -> None:
    for part, texts in REASONS.items():
        for value in texts:
            said = reason(
                part, "rth" if part == "hours" else value, "rth", str, basis="tpo", placement="range"
            )
            assert said.endswith(".")
            assert "%(" not in said
    assert all(text.islower() or "'" in text for text in HOURS.values())
