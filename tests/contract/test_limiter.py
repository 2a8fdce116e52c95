"""Contract of limiters, over every implementation."""

from collections.abc import Callable, Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.engines.jetstream import JetStream
from tests.contract.limiters import Moved, alone, here, moved, over_nats

MS = 1_000_000
WINDOW = 60_000 * MS
START = 1_767_366_245_123_456_789

Make = Callable[[], Moved]


@pytest.fixture(params=["in one process", "shared", "shared over NATS"])
def make(request: pytest.FixtureRequest) -> Iterator[Make]:
    """Create unused limiters."""
    match request.param:
        case "in one process":
            yield alone
        case "shared":
            with moved(here) as made:
                yield made
        case _:
            server: JetStream = request.getfixturevalue("jetstream_server")
            with moved(lambda time: over_nats(server.urls, time)) as made:
                yield made


@pytest.mark.parametrize("limit", [30, 120, 600])
def test_a_burst_at_one_instant(make: Make, limit: int) -> None:
    limiter = make()
    verdicts = [limiter.take("key:1", limit, START) for _ in range(limit + 5)]
    assert [verdict.allowed for verdict in verdicts] == [True] * limit + [False] * 5
    assert [verdict.remaining for verdict in verdicts] == [*range(limit - 1, -1, -1)] + [0] * 5
    assert verdicts[-1].retry_after_ms == 60_000


def test_the_window_slides_instead_of_starting_anew(make: Make) -> None:
    """A fixed window would allow 30 at its end and 30 at the start of the next."""
    limiter = make()
    for _ in range(30):
        assert limiter.take("key:1", 30, START + 59_000 * MS).allowed
    assert not limiter.take("key:1", 30, START + 61_000 * MS).allowed
    assert not limiter.take("key:1", 30, START + 118_999 * MS).allowed
    assert limiter.take("key:1", 30, START + 119_000 * MS).allowed


def test_a_refused_request_is_not_counted(make: Make) -> None:
    limiter = make()
    for second in range(30):
        assert limiter.take("key:1", 30, START + second * 1000 * MS).allowed
    for millisecond in range(30_000, 60_000, 100):  # refused requests do not delay the next accepted one
        assert not limiter.take("key:1", 30, START + millisecond * MS).allowed
    assert limiter.take("key:1", 30, START + WINDOW).allowed


def test_a_refusal_is_known_without_counting(make: Make) -> None:
    limiter = make()
    assert limiter.refusal("key:1", 30, START) is None
    for second in range(30):
        assert limiter.refusal("key:1", 30, START + second * 1000 * MS) is None
        assert limiter.take("key:1", 30, START + second * 1000 * MS).allowed
    refused = limiter.take("key:1", 30, START + 30_000 * MS)
    assert not refused.allowed
    assert limiter.refusal("key:1", 30, START + 30_000 * MS) == refused
    assert limiter.refusal("key:1", 31, START + 30_000 * MS) is None
    assert limiter.refusal("key:1", 30, START + WINDOW) is None
    assert limiter.take("key:1", 30, START + WINDOW).allowed


def test_subjects_are_counted_apart(make: Make) -> None:
    limiter = make()
    for _ in range(30):
        limiter.take("key:1", 30, START)
    assert not limiter.take("key:1", 30, START).allowed
    assert limiter.take("key:11", 30, START).allowed
    assert limiter.take("ip:key:1", 30, START).allowed


def test_a_lowered_limit_holds_at_once(make: Make) -> None:
    """After 60 requests, one a second, a limit of 30 accepts the next when the 30th newest is 60 s old: in 31 s."""
    limiter = make()
    for second in range(60):
        limiter.take("key:1", 120, START + second * 1000 * MS)
    verdict = limiter.take("key:1", 30, START + 59_000 * MS)
    assert not verdict.allowed
    assert verdict.retry_after_ms == 31_000
    assert not limiter.take("key:1", 30, START + 89_999 * MS).allowed
    assert limiter.take("key:1", 30, START + 90_000 * MS).allowed


def test_reading_counts_nothing(make: Make) -> None:
    limiter = make()
    assert limiter.peek("key:1", 30, START).remaining == 30
    limiter.take("key:1", 30, START)
    for _ in range(100):
        seen = limiter.peek("key:1", 30, START + 20_000 * MS)
        assert (seen.remaining, seen.reset_ms, seen.retry_after_ms) == (29, 40_000, 0)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(st.data())
def test_no_window_holds_more_than_the_limit(make: Make, data: st.DataObject) -> None:
    """Compare with the definition: accept if fewer than `limit` were accepted in the half-open 60 s ending now."""
    limit = data.draw(st.integers(1, 6))
    steps = data.draw(
        st.lists(
            st.tuples(
                st.sampled_from(["key:1", "key:2", "ip:10.0.0.1"]),
                st.one_of(
                    st.integers(0, 3),
                    st.integers(0, WINDOW // 2),
                    st.sampled_from([WINDOW - 1, WINDOW, WINDOW + 1]),
                ),
            ),
            max_size=80,
        )
    )
    limiter, now_ns = make(), START
    passed: list[tuple[str, int]] = []
    for subject, step_ns in steps:
        now_ns += step_ns
        recent = [at for who, at in passed if who == subject and now_ns - at < WINDOW]
        verdict = limiter.take(subject, limit, now_ns)
        assert verdict.allowed == (len(recent) < limit)
        assert verdict.remaining == max(0, limit - len(recent) - 1)
        if verdict.allowed:
            passed.append((subject, now_ns))
            assert verdict.retry_after_ms == 0
        else:
            then_ns = now_ns + verdict.retry_after_ms * MS
            assert len([at for at in recent if then_ns - at < WINDOW]) < limit, "too early"
            assert len([at for at in recent if then_ns - MS - at < WINDOW]) >= limit, "too late"


def test_idle_subjects_are_forgotten() -> None:
    limiter = alone()
    for number in range(1000):
        limiter.take(f"ip:10.0.{number // 256}.{number % 256}", 30, START)
    limiter.take("key:1", 30, START + WINDOW)
    limiter.take("key:1", 30, START + 2 * WINDOW)
    assert limiter.subjects == 1


def test_a_flood_of_addresses_is_bounded_and_costs_no_key_its_own_count() -> None:
    limiter = alone(max_subjects=100)
    for number in range(5000):
        limiter.take(f"ip:10.{number >> 16}.{(number >> 8) & 255}.{number & 255}", 30, START + number)
    assert limiter.subjects <= 101
    assert not limiter.take("ip:192.0.2.1", 30, START + 5000).allowed
    assert limiter.take("key:1", 30, START + 5000).remaining == 29
    assert limiter.take("ip:10.0.0.1", 30, START + 5000).remaining == 28  # was known before the flood


def test_a_steady_client_leaves_no_more_than_its_window_in_memory() -> None:
    """Five windows at the full rate: each request is accepted as one expires, and none is discarded early."""
    limiter = alone()
    step = WINDOW // 120
    for number in range(600):
        verdict = limiter.take("key:1", 120, START + number * step)
        assert (verdict.allowed, verdict.remaining) == (True, max(0, 119 - number))
        if number >= 120:
            assert not limiter.take("key:1", 120, START + number * step + step - 1).allowed
    assert limiter.peek("key:1", 120, START + 599 * step + WINDOW).remaining == 120


def test_who_passed_lately_is_known_with_how_long_ago(make: Make) -> None:
    limiter = make()
    limiter.take("key:1", 1, START)
    limiter.take("key:1", 1, START)  # refused: nothing is stored
    limiter.take("ip:192.0.2.1", 5, START)
    limiter.take("key:2", 5, START + MS)
    limiter.take("key:2", 5, START + 2 * MS)
    assert limiter.recent("key:", START + 3 * MS) == {"key:1": 3 * MS, "key:2": MS}
    assert limiter.recent("key:", START + WINDOW) == {"key:2": WINDOW - 2 * MS}
    assert limiter.recent("key:", START + 2 * MS + WINDOW) == {}


def test_whoever_asks_every_half_minute_who_passed_misses_nobody(make: Make) -> None:
    """A reader that polls every half minute sees all subjects, also while they change and logs are dropped."""
    limiter, recent, passed = make(), set[str](), set[str]()
    for second in range(600):
        name = f"key:{second // 7}"
        limiter.take(name, 100, START + second * 1000 * MS)
        passed.add(name)
        if second % 30 == 29:
            recent |= limiter.recent("key:", START + second * 1000 * MS + 999 * MS).keys()
    assert recent == passed
