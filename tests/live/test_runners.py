"""Streams of a process, by name and by owner of their feed."""

import random
from types import SimpleNamespace
from typing import Any, cast

from outcry.live.model import StreamKey
from outcry.live.runners import Runners
from outcry.market.instruments import Contract


def test_streams_by_owner_match_a_linear_search() -> None:
    """Compare with a linear search, over a thousand additions and removals."""
    chance, runners, there = random.Random(5), Runners(), dict[str, StreamKey]()
    keys = [
        StreamKey(owner, feed, Contract("ES", 2026, month))
        for owner in range(3) for feed in ("a", "b") for month in (3, 6)
    ]  # fmt: skip
    for _ in range(1000):
        key = chance.choice(keys)
        if key.text in there:
            removed = runners.pop(key.text)
            assert removed is not None
            assert removed.key == there.pop(key.text)
        else:
            runners.put(cast("Any", SimpleNamespace(key=key, name=key.text)))
            there[key.text] = key
        assert dict(runners) == {name: runners[name] for name in there}
        assert [runner.key for runner in runners.values()] == list(there.values())
        assert runners.feeds == {(key.owner, key.feed) for key in there.values()}
        assert set(runners.owners) == {key.owner for key in there.values()}
        for owner in range(3):
            of_owner = {key.text for key in there.values() if key.owner == owner}
            assert {runner.name for runner in runners.of_owner(owner)} == of_owner
            for feed in ("a", "b"):
                of_feed = {key.text for key in there.values() if (key.owner, key.feed) == (owner, feed)}
                assert {runner.name for runner in runners.of(owner, feed)} == of_feed
    assert runners.pop("9/none/ESH2026") is None
