"""Shared sign-in of several streams, through every fault; tokens are renewed in time and once.

Time is virtual: waits of minutes pass at once and exactly.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from itertools import pairwise

import pytest
from tests.timeouts import within
from tests.virtual_time import run_in_virtual_time

from outcry.base.backoff import FIRST_PAUSE_S, LONGEST_PAUSE_S
from outcry.feeds.shared_session import GOOD_SESSION_S, CredentialsRejected, SharedSession
from outcry.feeds.tokens import Token, TokenSource
from outcry.market.units import NANOS_PER_SECOND
from outcry.trades.feed import FeedLost, FeedRefused, LoginRefused

MANY = 50


def run(work: Callable[[], Awaitable[None]]) -> None:
    run_in_virtual_time(_whole(work))


async def _whole(work: Callable[[], Awaitable[None]]) -> None:
    await work()
    assert asyncio.all_tasks() == {asyncio.current_task()}


def now_s() -> float:
    return asyncio.get_running_loop().time()


class VendorSession:
    """VendorSession-in session."""

    def __init__(self) -> None:
        self.open = True
        self.closed = 0

    async def close(self) -> None:
        self.open = False
        self.closed += 1


class Vendor:
    """Signs in as it is told, taking a second for it; without more to go by it does as with the last."""

    def __init__(self, *answers: Exception | None) -> None:
        self.answers = list(answers) or [None]
        self.asked_s: list[float] = []
        self.sessions: list[VendorSession] = []
        self.under_way = self.most_under_way = 0

    async def sign_in(self) -> VendorSession:
        self.asked_s.append(now_s())
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        try:
            await asyncio.sleep(1.0)
        finally:
            self.under_way -= 1
        if answer is not None:
            raise answer
        self.sessions.append(VendorSession())
        return self.sessions[-1]

    @property
    def waited_s(self) -> list[float]:
        """Return the pause between the end of one attempt and the start of the next."""
        return [after - before - 1.0 for before, after in pairwise(self.asked_s)]


async def ask(link: SharedSession[VendorSession]) -> VendorSession | FeedLost:
    try:
        return await link.session()
    except FeedLost as problem:
        return problem


async def ask_all(link: SharedSession[VendorSession]) -> Sequence[VendorSession | FeedLost]:
    return await asyncio.gather(*(ask(link) for _ in range(MANY)))


def codes(answers: Sequence[VendorSession | FeedLost]) -> list[tuple[type, str]]:
    return [(type(one), one.code) for one in answers if isinstance(one, FeedLost)]


def test_many_streams_share_one_sign_in() -> None:
    async def work() -> None:
        vendor = Vendor()
        link = SharedSession(vendor.sign_in)
        answers = await ask_all(link)
        assert set(answers) == {vendor.sessions[0]}
        assert len(vendor.asked_s) == 1
        assert await link.session() is vendor.sessions[0]

    run(work)


@pytest.mark.parametrize("speedup", [1.0, 20.0])
def test_pauses_grow_and_are_never_the_same(speedup: float) -> None:
    """1 s at first, twice as long each time up to a minute, and between half and all of that by chance."""

    async def work() -> None:
        waits: list[list[float]] = []
        for _ in range(2):
            vendor = Vendor(ConnectionRefusedError("nobody there"))
            link = SharedSession(vendor.sign_in, speedup=speedup)
            for _ in range(10):
                assert codes([await ask(link)]) == [(FeedLost, "unreachable")]
            waits.append(vendor.waited_s)
        longest = [min(FIRST_PAUSE_S * 2**n, LONGEST_PAUSE_S) / speedup for n in range(9)]
        for waited in waits:
            assert all(
                most / 2 - 1e-6 <= s <= most + 1e-6 for s, most in zip(waited, longest, strict=True)
            ), waited
        assert waits[0] != waits[1]
        assert longest[-1] == LONGEST_PAUSE_S / speedup

    run(work)


@pytest.mark.parametrize(
    "problem",
    [FeedLost("rate_limited"), TimeoutError(), OSError("no route"), ZeroDivisionError("a fault of ours")],
)
def test_every_failure_is_followed_by_a_pause(problem: Exception) -> None:
    async def work() -> None:
        vendor = Vendor(problem, None)
        link = SharedSession(vendor.sign_in)
        with pytest.raises((FeedLost, ZeroDivisionError)):
            await link.session()
        assert await link.session() is vendor.sessions[0]
        assert vendor.waited_s[0] >= FIRST_PAUSE_S / 2

    run(work)


def test_nothing_is_retried_after_two_refusals() -> None:
    """Of fifty the first is told of a refusal, the second of the last one, and so is everybody else, each apart."""

    async def work() -> None:
        vendor = Vendor(CredentialsRejected("login_expired", "ended"), CredentialsRejected())
        link = SharedSession(vendor.sign_in)
        answers = [*await ask_all(link), *await ask_all(link)]
        assert codes(answers) == [
            (FeedLost, "login_expired"), *[(LoginRefused, "login_refused")] * (2 * MANY - 1)
        ]  # fmt: skip
        assert len({id(one) for one in answers}) == len(answers)
        assert len(vendor.asked_s) == 2
        assert vendor.most_under_way == 1

    run(work)


def test_a_vendor_that_refuses_is_not_asked_again() -> None:
    async def work() -> None:
        vendor = Vendor(FeedRefused("not_allowed", "not from here"))
        link = SharedSession(vendor.sign_in)
        assert codes(await ask_all(link)) == [(FeedRefused, "not_allowed")] * MANY
        assert len(vendor.asked_s) == 1

    run(work)


@pytest.mark.parametrize(("worked", "kind"), [(True, FeedLost), (False, LoginRefused)])
def test_only_consecutive_refusals_count(worked: bool, kind: type) -> None:
    """Between two of them a session that brought something forgets the first; one that only signed in does not."""

    async def work() -> None:
        vendor = Vendor(CredentialsRejected(), None, CredentialsRejected())
        link = SharedSession(vendor.sign_in)
        assert codes([await ask(link)]) == [(FeedLost, "login_refused")]
        session = await link.session()
        if worked:
            link.worked()
        await session.close()
        assert codes([await ask(link)]) == [(kind, "login_refused")]

    run(work)


def test_a_refusal_seen_by_many_streams_counts_once() -> None:
    """And the session it was found of is given to nobody any more, though it is open."""

    async def work() -> None:
        vendor = Vendor()
        link = SharedSession(vendor.sign_in)
        first = await link.session()
        assert (
            codes([link.rejected(CredentialsRejected()) for _ in range(MANY)])
            == [(FeedLost, "login_refused")] * MANY
        )
        answers = await ask_all(link)
        assert set(answers) == {vendor.sessions[1]}
        assert (first.closed, len(vendor.sessions)) == (1, 2)
        assert (
            codes([link.rejected(CredentialsRejected()) for _ in range(MANY)])
            == [(LoginRefused, "login_refused")] * MANY
        )
        assert codes(await ask_all(link)) == [(LoginRefused, "login_refused")] * MANY
        assert len(vendor.asked_s) == 2

    run(work)


@pytest.mark.parametrize("good", [True, False])
def test_a_session_that_is_lost_is_replaced_once(good: bool) -> None:
    """After a good one the next comes soon; those that break at once are asked for less and less often."""

    async def work() -> None:
        vendor = Vendor()
        link = SharedSession(vendor.sign_in)
        for _ in range(6):
            session = await link.session()
            await asyncio.sleep(2 * GOOD_SESSION_S if good else 0.0)
            session.open = False
            broke_s = now_s()
            assert set(await ask_all(link)) == {vendor.sessions[-1]}
            assert session.closed == 1
        last_s = vendor.asked_s[-1] - broke_s
        assert last_s <= FIRST_PAUSE_S if good else last_s >= FIRST_PAUSE_S * 2**5 / 2
        assert len(vendor.asked_s) == 7
        await link.close()

    run(work)


def test_closing_during_a_sign_in() -> None:
    """The resulting session is closed and returned to no stream."""

    async def work() -> None:
        vendor = Vendor()
        link = SharedSession(vendor.sign_in)
        asking = asyncio.create_task(ask_all(link))
        await asyncio.sleep(0.5)
        await link.close()
        assert codes(await asking) == [(FeedLost, "closed")] * MANY
        assert [session.closed for session in vendor.sessions] == [1]
        assert codes([await ask(link)]) == [(FeedLost, "closed")]

    run(work)


def test_closing_during_a_pause() -> None:
    async def work() -> None:
        vendor = Vendor(OSError(), None)
        link = SharedSession(vendor.sign_in)
        await ask(link)
        asking = asyncio.create_task(ask(link))
        await asyncio.sleep(0.1)
        await link.close()
        assert codes([await asking]) == [(FeedLost, "closed")]
        assert len(vendor.asked_s) == 1

    run(work)


@pytest.mark.parametrize("problem", [None, OSError()])
def test_the_stream_that_signs_in_is_cancelled_and_others_continue(problem: Exception | None) -> None:
    """Cancelled while signing in, and while waiting out a pause."""

    async def work() -> None:
        vendor = Vendor(problem, None)
        link = SharedSession(vendor.sign_in)
        first = asyncio.create_task(ask(link))
        await asyncio.sleep(0.5)
        others = asyncio.create_task(ask_all(link))
        await asyncio.sleep(0)
        if problem is not None:
            await asyncio.sleep(0.6)  # the first failed; the next is in its pause
            others.cancel()
            others = asyncio.create_task(ask_all(link))
        first.cancel()
        assert set(await within(others, 60)) == {vendor.sessions[0]}
        assert vendor.most_under_way == 1
        assert len(vendor.asked_s) == 2
        await asyncio.gather(first, return_exceptions=True)

    run(work)


# -- tokens


class LoopClock:
    """Clock on the loop's time."""

    def now_ns(self) -> int:
        return round(now_s() * NANOS_PER_SECOND)


class TokenIssuer:
    """Issues tokens of a hundred seconds, taking one for each."""

    def __init__(self, *answers: Exception | None) -> None:
        self.answers = list(answers)
        self.given: list[str | None] = []

    async def renew(self, last: Token | None) -> Token:
        self.given.append(last.text if last else None)
        made_ns = LoopClock().now_ns()
        await asyncio.sleep(1.0)
        if self.answers and (answer := self.answers.pop(0)) is not None:
            raise answer
        return Token(f"token {len(self.given)}", made_ns, 100.0)


async def tokens_of(tokens: TokenSource) -> list[str]:
    answers = await asyncio.gather(*(tokens.token() for _ in range(MANY)), return_exceptions=True)
    return [one if isinstance(one, str) else f"{type(one).__name__} {one}" for one in answers]


def test_a_token_is_renewed_once_at_four_fifths_of_its_life() -> None:
    async def work() -> None:
        issuer = TokenIssuer()
        tokens = TokenSource(issuer.renew, LoopClock())
        assert await tokens_of(tokens) == ["token 1"] * MANY
        await asyncio.sleep(78.9)  # 79.9 s old
        assert await tokens_of(tokens) == ["token 1"] * MANY
        await asyncio.sleep(0.1)
        assert await tokens_of(tokens) == ["token 2"] * MANY
        assert issuer.given == [None, "token 1"]

    run(work)


def test_a_token_refused_early_is_renewed_and_a_newer_one_is_kept() -> None:
    async def work() -> None:
        issuer = TokenIssuer()
        tokens = TokenSource(issuer.renew, LoopClock())
        await tokens.token()
        tokens.refused("token 1")
        assert await tokens_of(tokens) == ["token 2"] * MANY
        tokens.refused("token 1")
        assert await tokens.token() == "token 2"
        assert issuer.given == [None, None]

    run(work)


def test_a_failed_renewal_fails_for_all_waiting_streams_and_is_requested_once() -> None:
    async def work() -> None:
        issuer = TokenIssuer(CredentialsRejected("login_refused", "no"), None)
        tokens = TokenSource(issuer.renew, LoopClock())
        assert await tokens_of(tokens) == ["CredentialsRejected no"] * MANY
        assert issuer.given == [None]
        assert await tokens_of(tokens) == ["token 2"] * MANY
        await asyncio.sleep(80)
        issuer.answers = [FeedLost("unreachable", "gone")]
        waiting = asyncio.create_task(tokens_of(tokens))
        assert await waiting == ["FeedLost gone"] * MANY
        assert await tokens.token() == "token 4"
        assert issuer.given == [None, None, "token 2", "token 2"]

    run(work)


def test_the_stream_that_renews_is_cancelled_and_others_continue() -> None:
    async def work() -> None:
        issuer = TokenIssuer()
        tokens = TokenSource(issuer.renew, LoopClock())
        first = asyncio.create_task(tokens.token())
        await asyncio.sleep(0.5)
        others = asyncio.create_task(tokens_of(tokens))
        await asyncio.sleep(0)
        first.cancel()
        assert await within(others, 60) == ["token 2"] * MANY

    run(work)


def test_a_token_is_never_printed() -> None:
    assert "hidden" not in repr(Token("hidden", 0, 1.0))
