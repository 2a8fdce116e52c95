"""Properties of all alert machines of a session, worked by hand: order, keys, muting, the quiet band, dumps."""

import json
from datetime import date

from tests.market.structure_tape import OPEN_NS, Tape, at, fired_alerts, opening

from outcry.market.alerts.machine import BEYOND_TICKS, NEVER_NS, QuietBand
from outcry.market.alerts.session_alerts import SessionAlerts
from outcry.market.levels import CarriedLevel


def level(price: int, day: int) -> CarriedLevel:
    return CarriedLevel(price, date(2025, 12, day))


def crowded() -> Tape:
    """Return a tape with naked POCs and poor highs at VAH 1000, given newest first; the balance ends at 990."""
    tape = Tape(
        opening(
            pocs=(level(1001, 31), level(1000, 24)),
            highs=(level(1001, 30), level(1000, 23)),
            lows=(level(1001, 22),),
        )
    )
    tape.trade(1, 980)
    tape.trade(2, 990)
    return tape


def test_alerts_of_one_event_are_ordered() -> None:
    """Types as rules §6 orders them, and within a type by date; each type counts its own milliseconds."""
    found = crowded().bar(61, 985, 1003, 1003)
    assert [(alert.type.value, alert.ref) for alert in found] == [
        ("ib-break-up", "IBH"),
        ("naked-poc", "2025-12-24"), ("naked-poc", "2025-12-31"),
        ("va-test-high", "VAH"),
        ("poor-high", "2025-12-23"), ("poor-high", "2025-12-30"),
    ]  # fmt: skip
    first = at(61) // 1_000_000
    assert [alert.key_ms - first for alert in found] == [0, 0, 1, 0, 0, 1]
    assert {alert.price_ticks for alert in found} == {1003}
    assert {alert.at_ns for alert in found} == {at(61)}
    assert {alert.bracket for alert in found} == {2}


def test_keys_are_unique_and_ascending() -> None:
    """Three naked POCs at one price take milliseconds 0, 1, 2; a fourth one microsecond later takes 3, not 0."""
    tape = Tape(opening(pocs=(level(985, 1), level(985, 2), level(985, 3), level(986, 4))))
    tape.trade(0, 980)
    first = tape.trade(1, 985)
    (last,) = tape.trade(1, 986, 1000)
    assert [alert.key_ms - at(1) // 1_000_000 for alert in [*first, last]] == [0, 1, 2, 3]


def test_a_reject_precedes_an_acceptance_of_the_same_time() -> None:
    """Above VAH at minute 40, below VAL at the close of brackets 0 and 1: bar first, then bracket."""
    tape = Tape()
    tape.trade(0, 980)
    tape.bracket(0, 950)
    tape.trade(40, 1001)
    tape.trade(59, 950)
    assert fired_alerts(tape.five(60, 950)) == [("va-reject-high", 950)]
    assert fired_alerts(tape.bracket(1, 950)) == [("va-accept-below", 950)]


def test_without_a_prior_session_only_the_balance_fires() -> None:
    tape = Tape(opening(prior=None))
    tape.trade(0, 990)
    tape.trade(1, 1000)
    tape.trade(2, 1001)
    assert tape.five(5, 999) == []
    assert [tape.bracket(0, 1001), tape.bracket(1, 1001)] == [[], []]
    assert fired_alerts(tape.trade(61, 1002)) == [("ib-break-up", 1002)]


# -- muting


def test_muted_machines_latch_and_fire_nothing() -> None:
    tape = Tape()
    tape.structure.silence(on=True)
    tape.trade(0, 990)
    assert [tape.trade(1, 1000), tape.trade(2, 1001), tape.five(5, 999)] == [[], [], []]
    assert [tape.bracket(0, 1001), tape.bracket(1, 1001)] == [[], []]
    tape.structure.silence(on=False)
    assert tape.trade(6, 1000) == []
    assert fired_alerts(tape.trade(61, 1002)) == [("ib-break-up", 1002)]


def test_alerts_while_muted_count() -> None:
    tape = Tape()
    tape.structure.silence(on=True)
    for minute in (0, 20):
        tape.trade(minute, 990)
        tape.trade(minute + 1, 1000)
    tape.structure.silence(on=False)
    found = []
    for minute in (40, 60, 80):
        tape.trade(minute, 990)
        found += fired_alerts(tape.trade(minute + 1, 1000))
    assert found == [("va-test-high", 1000)]


def test_keys_equal_those_of_a_run_that_was_never_muted() -> None:
    """The first POC is tested while muted, in the same millisecond as the second."""
    tape = Tape(opening(pocs=(level(985, 1), level(986, 2))))
    tape.structure.silence(on=True)
    tape.trade(0, 980)
    tape.trade(1, 985)
    tape.structure.silence(on=False)
    (alert,) = tape.trade(1, 986, 1)
    assert alert.key_ms == at(1) // 1_000_000 + 1


# -- the quiet band


def test_before_the_first_observation_nothing_is_quiet() -> None:
    quiet = Tape().structure.quiet()
    assert quiet.low >= quiet.high - 1 or quiet.until_ns <= OPEN_NS


def test_the_band_lies_between_the_nearest_conditions() -> None:
    """At 980: tests armed at 1000 and 960 (from 998 and 962), nothing else nearer; the balance forms for an hour."""
    tape = Tape()
    tape.trade(0, 980)
    assert tape.structure.quiet() == QuietBand(962, 998, at(60))
    tape.trade(60, 980)
    assert tape.structure.quiet() == QuietBand(979, 981, NEVER_NS)  # a balance of one price
    tape.structure.revise_ib((1010, 900))
    assert tape.structure.quiet() == QuietBand(962, 998, NEVER_NS)
    tape.structure.revise_ib((985, 975))
    assert tape.structure.quiet() == QuietBand(974, 986, NEVER_NS)


def test_the_band_ends_when_a_rest_ends() -> None:
    """VAH was tested at minute 1 and rests until 16; a probe watches from 1001 on, the test of VAL at 962."""
    tape = Tape()
    tape.trade(0, 980)
    tape.trade(1, 1000)
    assert tape.structure.quiet() == QuietBand(962, 1001, at(16))
    tape.trade(2, 1001)
    assert tape.structure.quiet() == QuietBand(962, 1002, at(16))  # only a new extreme matters
    tape.trade(16, 1000)
    assert tape.structure.quiet() == QuietBand(992, 1002, at(60))  # waits for 8 away


def test_without_pending_conditions_all_prices_are_quiet() -> None:
    tape = Tape(opening(prior=None))
    assert tape.structure.quiet() == QuietBand(-BEYOND_TICKS, BEYOND_TICKS, at(60))
    tape.trade(61, 980)
    assert tape.structure.quiet() == QuietBand(-BEYOND_TICKS, BEYOND_TICKS, NEVER_NS)


# -- dumps


def test_a_dump_is_plain_data_and_complete() -> None:
    tape = crowded()
    tape.bar(61, 985, 1003, 1003)
    tape.structure.silence(on=True)
    stored = json.loads(json.dumps(tape.structure.dump()))
    assert stored == tape.structure.dump()
    again = SessionAlerts.load(
        opening(
            pocs=(level(1001, 31), level(1000, 24)),
            highs=(level(1001, 30), level(1000, 23)),
            lows=(level(1001, 22),),
        ),
        stored,
    )
    assert again.dump() == stored
    assert again.quiet() == tape.structure.quiet()
    again.silence(on=False)
    assert again.dump() != stored


def test_a_new_structure_has_an_equal_dump() -> None:
    assert SessionAlerts(opening()).dump() == SessionAlerts(opening()).dump()
