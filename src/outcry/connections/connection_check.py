"""Check a connection: which parts work, and which fail.

The check of a running connection reads the status of the connection's streams. For a connection that is not running,
the check opens a temporary feed. Both use the same code as the connection, so a check cannot pass where the connection
would fail.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import cast

from outcry.connections.model import CheckStep, Finding
from outcry.live.health import Phase
from outcry.live.model import StreamKey
from outcry.live.stream_status import StreamStatus
from outcry.market.instruments import Contract
from outcry.market.units import NANOS_PER_MINUTE
from outcry.trades.feed import (
    Bars,
    CaughtUp,
    Cursor,
    Event,
    Feed,
    FeedLost,
    FeedRefused,
    Heartbeat,
    LoginRefused,
    Status,
    Trades,
)

#: Time limit of a check with a temporary feed.
CHECK_TIMEOUT_S = 25.0
#: Length of history that a check requests.
_HISTORY_NS = 10 * NANOS_PER_MINUTE
#: Reasons of streams that are up to date.
_GOOD = frozenset({"live", "not_front", "closed", "no_trades", "no_prior", "incomplete"})
_LOGIN_CODES = frozenset({"login_refused", "login_expired", "entries_lost"})


@dataclass(slots=True)
class _Tried:
    """Result of opening the stream of one contract.

    `received`: whether any event arrived; `fault`: the error code with which the stream ended.
    """

    contract: Contract
    received: bool = False
    subscribed: bool | None = None
    history: str = ""
    fault: str = ""
    login: bool = False


def check_running(
    streams: Mapping[StreamKey, StreamStatus | None], history: Callable[[StreamKey], str]
) -> Sequence[Finding]:
    """Return the findings for a running connection, from the status of its streams (None: not started).

    history: returns the data quality of a stream (`ConnectionStreams.history`).
    """
    tried: list[_Tried] = []
    live: list[Finding] = []
    for key, status in streams.items():
        contract = key.contract
        if status is None:
            tried.append(_Tried(contract, fault="disconnected"))
            continue
        known = status.link in {Phase.CATCHING_UP, Phase.CURRENT}
        one = _Tried(contract, known, status.subscribed if known else None)
        if status.link is Phase.CURRENT:
            one.history = history(key)
            code = "ok" if status.reason == "live" else status.reason
            live.append(Finding(CheckStep.LIVE, contract.key, status.reason in _GOOD, code))
        if status.link in {Phase.REFUSED, Phase.LOST}:
            one.fault = status.reason if status.link is Phase.REFUSED else status.lost
            one.login = status.login
        tried.append(one)
    return [*_findings(tried), *live]


async def check_feed(feed: Feed, contracts: Sequence[Contract], now_ns: int) -> Sequence[Finding]:
    """Check a connection by a temporary feed: open every contract, then close the feed; return the findings."""
    tried = [_Tried(contract) for contract in contracts]
    since = Cursor(now_ns - _HISTORY_NS)
    tasks = [asyncio.ensure_future(_try(feed, one, since)) for one in tried]
    try:
        await asyncio.wait(tasks, timeout=CHECK_TIMEOUT_S)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await feed.close()
    for one in tried:
        if not one.received and not one.fault:
            one.fault = "unreachable"
    return list(_findings(tried))


async def _try(feed: Feed, one: _Tried, since: Cursor) -> None:
    """Read the stream of a contract until its result is known. Retry once if the vendor refuses the login."""
    while True:
        try:
            await _listen(feed, one, since)
        except FeedRefused as problem:
            one.fault, one.login = problem.code, isinstance(problem, LoginRefused)
        except FeedLost as problem:
            one.fault = problem.code
            if problem.code in _LOGIN_CODES:
                continue
        return


async def _listen(feed: Feed, one: _Tried, since: Cursor) -> None:
    events = cast("AsyncGenerator[Event]", feed.open(one.contract, since))
    async with aclosing(events) as stream:
        async for event in stream:
            one.received = True
            match event:
                case Status():
                    one.subscribed = event.subscribed
                    if not event.subscribed:
                        one.fault = event.code
                        return
                case Bars():
                    one.history = event.quality.value
                case Trades():
                    one.history = one.history or "ticks"
                case CaughtUp():
                    one.history = one.history or event.quality.value
                    one.subscribed = True
                    return
                case Heartbeat():
                    pass
                case _:
                    pass


def sign_in_failed(code: str) -> Sequence[Finding]:
    """Return the finding of a connection that cannot be opened."""
    return [Finding(CheckStep.SIGN_IN, "", passed=False, code=code)]


def _findings(tried: Sequence[_Tried]) -> Sequence[Finding]:
    found = [_sign_in(tried)]
    for one in tried:
        key = one.contract.key
        signed_in = found[0].passed
        subscribed = one.subscribed if signed_in else None
        if signed_in and one.fault and one.subscribed is None:
            subscribed = False
        code = "ok" if subscribed else one.fault if subscribed is False else "not_tried"
        found.append(Finding(CheckStep.SUBSCRIBED, key, subscribed, code or "unsubscribed"))
        passed = True if one.history else None
        found.append(Finding(CheckStep.HISTORY, key, passed, one.history or "not_tried"))
    return found


def _sign_in(tried: Sequence[_Tried]) -> Finding:
    """Return the finding on sign-in: whether the vendor is reachable and accepts the credentials.

    Any event of any contract proves both.
    """
    if any(one.received for one in tried):
        return Finding(CheckStep.SIGN_IN, "", passed=True, code="ok")
    refused = next((one.fault for one in tried if one.login), "")
    fault = refused or next((one.fault for one in tried if one.fault), "")
    if not fault:
        return Finding(CheckStep.SIGN_IN, "", passed=None, code="not_tried")
    by_contract = {"unknown_contract", "not_entitled"}
    passed = fault in by_contract  # the vendor only says so after the login
    return Finding(CheckStep.SIGN_IN, "", passed, "ok" if passed else fault)
