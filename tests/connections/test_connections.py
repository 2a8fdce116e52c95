"""Phases of a connection as a table, the summary of its streams, and the contracts it provides."""

from dataclasses import dataclass
from itertools import product as pairs_of

import pytest

from outcry.connections.contract_selection import contract_selector
from outcry.connections.lifecycle import NEVER, RESTING, RUNNING, TRANSITIONS, Sign, moved
from outcry.connections.model import ConnectionPhase as Phase
from outcry.connections.stream_summary import summarize_streams
from outcry.live.health import Phase as Link
from outcry.live.stream_status import StreamStatus
from outcry.market.instruments import Contract
from outcry.trades.reference_tables import load_reference

LIVE = StreamStatus(Link.CURRENT, "live")
LOST = StreamStatus(Link.LOST, "disconnected", lost="unreachable")
OLD = StreamStatus(Link.CATCHING_UP, "catching_up")


def test_every_pair_of_phase_and_sign_is_in_the_table_or_never_happens() -> None:
    assert set(TRANSITIONS) | NEVER == set(pairs_of(Phase, Sign))
    assert not set(TRANSITIONS) & NEVER
    assert set(RUNNING) | set(RESTING) == set(Phase)


def test_only_a_user_resumes_a_paused_connection() -> None:
    for phase in RESTING:
        assert {sign for of, sign in TRANSITIONS if of is phase} == {Sign.REQUESTED, Sign.PAUSED}
        assert moved(phase, Sign.REQUESTED) is Phase.CONNECTING


def test_every_phase_is_reachable_from_a_new_connection() -> None:
    reached = {Phase.CONNECTING}
    for _ in Phase:
        reached |= {to for (of, _), to in TRANSITIONS.items() if of in reached}
    assert reached == set(Phase)


@pytest.mark.parametrize(
    ("streams", "sign", "code"),
    [
        ([], Sign.BROKE, "connecting"),
        ([StreamStatus(Link.CONNECTING, "connecting")], Sign.BROKE, "connecting"),
        ([LOST, LOST], Sign.BROKE, "unreachable"),
        ([OLD, LIVE], Sign.OPENED, "catching_up"),
        ([LIVE, StreamStatus(Link.CURRENT, "closed")], Sign.CURRENT, "live"),
        ([StreamStatus(Link.CURRENT, "closed"), StreamStatus(Link.CURRENT, "closed")], Sign.CURRENT, "closed"),
        ([StreamStatus(Link.CURRENT, "no_prior")], Sign.CURRENT, "no_prior"),
        ([LIVE, LOST], Sign.TROUBLED, "unreachable"),
        ([LIVE, StreamStatus(Link.CURRENT, "stale_link")], Sign.TROUBLED, "stale_link"),
        ([LIVE, StreamStatus(Link.CURRENT, "unsubscribed")], Sign.TROUBLED, "unsubscribed"),
        ([LIVE, StreamStatus(Link.REFUSED, "unknown_contract")], Sign.TROUBLED, "unknown_contract"),
        ([LOST, StreamStatus(Link.REFUSED, "unknown_contract")], Sign.BROKE, "unreachable"),
        ([StreamStatus(Link.REFUSED, "not_entitled")], Sign.REFUSED, "not_entitled"),
        ([LOST, StreamStatus(Link.REFUSED, "login_expired", login=True)], Sign.LOGIN_REFUSED, "login_expired"),
    ],
    ids=[
        "nothing-yet", "asked", "both-lost", "one-behind", "one-closed", "all-closed", "no-prior", "one-lost",
        "silent", "not-sent", "one-refused", "lost-and-refused", "all-refused", "login",
    ],
)  # fmt: skip
def test_connection_state_from_its_streams(streams: list[StreamStatus], sign: Sign, code: str) -> None:
    assert summarize_streams(streams) == (sign, code)


@dataclass
class Present:
    at_ns: int

    def now_ns(self) -> int:
        return self.at_ns


def test_the_next_contract_is_followed_before_a_roll() -> None:
    """A connection also provides the next contract shortly before a roll.

    The equity indices' December contract ends on the third Friday, the 18th, in 2026; crude's ends in November."""
    clock = Present(0)
    wanted = contract_selector(load_reference(None).universe, ["ES", "CL"], clock)
    found = {}
    for day in ("2026-11-02", "2026-12-07"):
        clock.at_ns = int(np_day(day))
        found[day] = list(wanted())
    assert found["2026-11-02"][0] == Contract("ES", 2026, 12)
    assert Contract("ES", 2027, 3) not in found["2026-11-02"]
    assert found["2026-12-07"][:2] == [Contract("ES", 2026, 12), Contract("ES", 2027, 3)]


def np_day(day: str) -> int:
    from datetime import UTC, datetime

    return int(datetime.fromisoformat(day).replace(tzinfo=UTC).timestamp()) * 10**9
