"""Which alerts of a digest are sent at once, and when the others are."""

from tests.delivery.mailed import NOW_NS, alert, make_message

from outcry.delivery.digest_timing import due_now
from outcry.market.units import NANOS_PER_MINUTE, NANOS_PER_SECOND

#: The message was created at 10:13:20 in its reader's time zone.
QUARTER_NS = NOW_NS + 100 * NANOS_PER_SECOND
FULL_HOUR_NS = QUARTER_NS + 45 * NANOS_PER_MINUTE
INFO, WARN = alert("ES", severity="info"), alert("NQ", severity="warn")
CRITICAL = alert("CL", severity="critical")


def test_nothing_is_due_before_its_window_ends() -> None:
    given = make_message(INFO, WARN)
    assert due_now(given, NOW_NS) == ([], FULL_HOUR_NS)
    assert due_now(given, FULL_HOUR_NS - 1) == ([], FULL_HOUR_NS)
    assert due_now(given, FULL_HOUR_NS) == (list(given.entries), None)


def test_each_subscription_has_its_own_window() -> None:
    given = make_message(INFO, subscription={"window": "quarter"})
    assert due_now(given, NOW_NS) == ([], QUARTER_NS)
    daily = make_message(INFO, subscription={"window": "day"})
    # 17:00 in New York
    assert due_now(daily, NOW_NS) == ([], FULL_HOUR_NS + 6 * 60 * NANOS_PER_MINUTE)


def test_critical_alerts_are_sent_at_once_and_others_wait() -> None:
    given = make_message(INFO, CRITICAL, WARN)
    assert due_now(given, NOW_NS) == ([given.entries[1]], FULL_HOUR_NS)


def test_if_all_alerts_are_critical_none_waits() -> None:
    given = make_message(CRITICAL, CRITICAL)
    assert due_now(given, NOW_NS) == (list(given.entries), None)


def test_critical_alerts_wait_too_if_the_reader_chose_so() -> None:
    given = make_message(CRITICAL, subscription={"at_once": False})
    assert due_now(given, NOW_NS) == ([], FULL_HOUR_NS)


def test_at_the_end_of_a_window_all_go_together_in_their_order() -> None:
    given = make_message(INFO, CRITICAL, WARN)
    assert due_now(given, FULL_HOUR_NS) == (list(given.entries), None)


def test_a_retry_does_not_wait_for_a_window() -> None:
    """A failed email is retried by its schedule, even if its reader chose a longer window in the meantime."""
    given = make_message(INFO, attempts=1, subscription={"window": "day"})
    assert due_now(given, NOW_NS) == (list(given.entries), None)
