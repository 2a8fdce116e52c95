"""What works of a connection, and what is missing: asked of one that runs, tried aside for one that does not.

Rule kept: it is the connection's own way that is looked at, feed, streams and all, so a check cannot pass where the
connection would fail.
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

#: A check that is tried aside takes no longer.
CHECK_TIMEOUT_S = 25.0
#: History asked for by a check.
_HISTORY_NS = 10 * NANOS_PER_MINUTE
#: Standings of a stream that is up to date.
_GOOD = frozenset({"live", "not_front", "closed", "no_trades", "no_prior", "incomplete"})
_LOGIN_CODES = frozenset({"login_refused", "login_expired", "entries_lost"})


@dataclass(slots=True)
class _Tried:
    """What came of opening one contract. `heard`: anything at all; `fault`: the code it ended with."""

    contract: Contract
    heard: bool = False
    subscribed: bool | None = None
    history: str = ""
    fault: str = ""
    login: bool = False


def check_running(
    streams: Mapping[StreamKey, StreamStatus | None], history: Callable[[StreamKey], str]
) -> Sequence[Finding]:
    """Findings of a connection that runs, by its streams; None: one that has not begun. history: see `Streams`."""
    tried: list[_Tried] = []
    live: list[Finding] = []
    for key, told in streams.items():
        contract = key.contract
        if told is None:
            tried.append(_Tried(contract, fault="disconnected"))
            continue
        known = told.link in {Phase.CATCHING_UP, Phase.CURRENT}
        one = _Tried(contract, known, told.subscribed if known else None)
        if told.link is Phase.CURRENT:
            one.history = history(key)
            code = "ok" if told.reason == "live" else told.reason
            live.append(Finding(CheckStep.LIVE, contract.key, told.reason in _GOOD, code))
        if told.link in {Phase.REFUSED, Phase.LOST}:
            one.fault = told.reason if told.link is Phase.REFUSED else told.lost
            one.login = told.login
        tried.append(one)
    return [*_findings(tried), *live]


async def check_feed(
    feed: Feed, contracts: Sequence[Contract], now_ns: int, rush: float = 1.0
) -> Sequence[Finding]:
    """Findings of a feed that nobody follows: every contract is opened aside, and closed again."""
    tried = [_Tried(contract) for contract in contracts]
    since = Cursor(now_ns - _HISTORY_NS)
    tasks = [asyncio.ensure_future(_try(feed, one, since)) for one in tried]
    try:
        await asyncio.wait(tasks, timeout=CHECK_TIMEOUT_S / rush)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await feed.close()
    for one in tried:
        if not one.heard and not one.fault:
            one.fault = "unreachable"
    return list(_findings(tried))


async def _try(feed: Feed, one: _Tried, since: Cursor) -> None:
    """Open a contract until it is known how it does. A first refusal of the login is tried once more."""
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
            one.heard = True
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
    """Findings of a connection that cannot even be tried."""
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
        told = True if one.history else None
        found.append(Finding(CheckStep.HISTORY, key, told, one.history or "not_tried"))
    return found


def _sign_in(tried: Sequence[_Tried]) -> Finding:
    """Whether the vendor is reached and takes the entries: it is if anything was heard of it."""
    if any(one.heard for one in tried):
        return Finding(CheckStep.SIGN_IN, "", passed=True, code="ok")
    refused = next((one.fault for one in tried if one.login), "")
    fault = refused or next((one.fault for one in tried if one.fault), "")
    if not fault:
        return Finding(CheckStep.SIGN_IN, "", passed=None, code="not_tried")
    by_contract = {"unknown_contract", "not_entitled"}
    passed = fault in by_contract  # whoever is told that has signed in
    return Finding(CheckStep.SIGN_IN, "", passed, "ok" if passed else fault)
