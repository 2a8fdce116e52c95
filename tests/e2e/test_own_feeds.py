"""Reserved feed names are not accepted from pushes, and streams are counted per user."""

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from outcry.api.app import Application, Options, Services, create_app
from outcry.app.application import build_application
from outcry.app.installation import open_installation
from outcry.app.settings import Settings
from outcry.base.errors import InvalidRequest
from outcry.feeds.pushed import MAX_STREAMS, PushedFeeds
from outcry.live.model import StreamKey
from outcry.live.service import LiveService
from outcry.market.instruments import Contract
from outcry.trades.feed import Backfill, Feed, FeedCaps, Resume
from outcry.trades.push_format import Push

ES = Contract("ES", 2013, 12)
CAPS = FeedCaps(1, False, True, Backfill.TICKS, 0, Resume.BY_TIME, False, own_clock=True)


def test_pushes_know_the_houses_own_feeds_and_streams(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The operator tails a file as `sierra`; user 7 has 64 streams, one of them `replay` of ESZ2013."""
    built = list[Services]()

    def build(services: Services, options: Options) -> Application:
        built.append(services)
        return create_app(services, options)

    monkeypatch.setattr("outcry.app.answering.create_app", build)
    with open_installation(Settings(data=str(tmp_path))) as installation:
        tail = cast("Feed", SimpleNamespace(name="sierra"))
        build_application(installation, [(0, tail)])
        (services,) = built
        pushes, live = cast("PushedFeeds", services.pushes), cast("LiveService", services.live)
        keys = [StreamKey(7, "replay", ES), *(StreamKey(7, f"f{n}", ES) for n in range(MAX_STREAMS - 1))]
        for key in keys:
            live.engine.runners.put(cast("Any", SimpleNamespace(key=key, name=key.text)))

        async def take(owner: int, feed: str) -> str:
            try:
                await pushes.take(owner, feed, Push("a" * 20, ES, CAPS, 0, ()))
            except InvalidRequest as problem:
                return str(problem.details["reason"])
            return ""

        assert asyncio.run(take(0, "sierra")) == "feed"
        assert asyncio.run(take(7, "another")) == "streams"
        assert asyncio.run(take(7, "replay")) == ""
        assert asyncio.run(take(8, "another")) == ""
