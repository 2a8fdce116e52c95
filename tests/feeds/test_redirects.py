"""No adapter follows a redirect: a user's credentials are sent to the vendor's host only."""

import json
from collections.abc import Callable

import pytest
from aiohttp import web
from support.vendors.databento_peer import DatabentoPeer
from support.vendors.hyperliquid_peer import HyperliquidPeer
from support.vendors.ibkr_peer import IbkrPeer
from support.vendors.massive_peer import MassivePeer
from support.vendors.peer import FakePeer
from support.vendors.projectx_peer import ProjectXPeer
from support.vendors.tastytrade_peer import TastytradePeer
from support.vendors.tradovate_peer import TradovatePeer
from tests.feeds.feed_harness import ES, NOW_NS, SECOND, open_feed, run, tape
from tests.feeds.redirecting_peer import RedirectingPeer
from tests.timeouts import until

from outcry.feeds.adapters import adapters
from outcry.trades.feed import CaughtUp

HOUR = 3600 * SECOND
#: Adapters that speak HTTP or WebSocket somewhere.
PEERS: dict[str, Callable[[], FakePeer]] = {
    "databento": DatabentoPeer,
    "hyperliquid": HyperliquidPeer,
    "massive": MassivePeer,
    "projectx": ProjectXPeer,
    "tastytrade": TastytradePeer,
    "tradovate": TradovatePeer,
}
#: More than any of them makes before it has caught up: the last one shows that nothing is left out.
MOST_REQUESTS = 8


def test_every_adapter_that_speaks_http_is_tried() -> None:
    assert {PEERS[name]().adapter.broker.id for name in PEERS} == set(PEERS)
    # Interactive Brokers uses a socket of TWS on the user's machine.
    assert set(adapters()) - set(PEERS) == {IbkrPeer().adapter.broker.id}


@pytest.mark.parametrize("status", [301, 302, 307])
@pytest.mark.parametrize("scheme", ["http", "ws"])
@pytest.mark.parametrize("name", PEERS)
def test_a_redirect_to_another_host_is_not_followed(name: str, scheme: str, status: int) -> None:
    """At whichever request it comes: sign-in, negotiation, WebSocket, history."""

    async def redirected_from(nth: int) -> RedirectingPeer:
        made = PEERS[name]()
        made.now_ns = NOW_NS
        made.tape(ES, tape(0, SECOND, first_ns=NOW_NS - 2 * HOUR, end_ns=NOW_NS + HOUR // 4))
        peer = RedirectingPeer(made, status, nth, scheme)
        async with open_feed(peer, wanted=(ES,)) as harness:
            reader = harness.follow(ES, NOW_NS - 5 * 60 * SECOND)
            await until(
                lambda: reader.problem is not None or bool(reader.of(CaughtUp)), "caught up or refused"
            )
        assert peer.trapped == b"", peer.trapped.decode()
        if peer.redirected:
            assert reader.problem is not None
        return peer

    async def work() -> None:
        for nth in range(1, MOST_REQUESTS + 1):
            peer = await redirected_from(nth)
            if not peer.redirected:
                return
        pytest.fail(f"{name} makes more requests than {MOST_REQUESTS}")

    run(work)


def test_a_negotiation_that_names_another_hub_is_not_followed() -> None:
    """SignalR lets a server answer with an address and a token to go to instead."""
    elsewhere = list[str]()

    class Sending(ProjectXPeer):
        async def negotiate(self, request: web.Request) -> web.Response:
            place = f"http://127.0.0.1:{self.port}/elsewhere"
            return self.answer(json.dumps({"url": place, "accessToken": "another"}))

        async def hub(self, request: web.Request) -> web.StreamResponse:
            elsewhere.append(str(request.rel_url))
            return await super().hub(request)

        def routes(self) -> list[web.RouteDef]:
            return [*super().routes(), web.get("/elsewhere", self.hub)]

    async def work() -> None:
        peer = Sending()
        peer.now_ns = NOW_NS
        peer.tape(ES, tape(0, SECOND, first_ns=NOW_NS - HOUR, end_ns=NOW_NS + HOUR // 4))
        async with open_feed(peer, wanted=(ES,)) as harness:
            problem = await harness.ended(since_ns=NOW_NS - 5 * 60 * SECOND)
        assert problem.code == "protocol"
        assert elsewhere == []

    run(work)
