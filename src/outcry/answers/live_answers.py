"""Answers from a live stream, built and encoded once for all readers of a channel.

An answer is at most two milliseconds older than its channel, so that a burst of trades does not cause a burst of
work. A channel that is not live has no live answer. Only the choice of channel and the name of its source depend on
the caller.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic_ns
from typing import Generic, Protocol, TypeVar, cast

import msgspec

from outcry.answers import describe
from outcry.answers.wording import state_text
from outcry.base.timestamps import iso_timestamp
from outcry.live.registry import Channel, LiveSource, VisibleChannel
from outcry.market.instruments import Universe
from outcry.market.live_session import LiveView
from outcry.market.opening import Prior
from outcry.market.units import NANOS_PER_MS
from outcry.wire.answers import (
    DISCLAIMER,
    Answer,
    ContextAnswer,
    LevelsAnswer,
    ProfileAnswer,
    number,
)

A_co = TypeVar("A_co", bound=Answer, covariant=True)

#: Minimum time between two renderings of an answer, at most 500 a second.
MIN_RENDER_INTERVAL_NS = 2 * NANOS_PER_MS


class Watch(Protocol):
    """Something with a version that answers are built from."""

    @property
    def version(self) -> int:
        """A number that changes with everything that may change the answer."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Rendered(Generic[A_co]):
    """An answer of one version and its JSON. `made_ns` is of the monotonic clock."""

    version: int
    answer: A_co
    body: bytes
    made_ns: int


class LiveAnswer(Generic[A_co]):
    """An answer that follows changing data. Thread-safe; `make` is never called concurrently.

    `make` takes the present (ns UTC) and returns None if there is no such answer now. `lasts_ns` is how long an
    unchanged answer stays valid; None means forever.
    """

    def __init__(self, watch: Watch, make: Callable[[int], A_co | None], lasts_ns: int | None = None) -> None:
        self._watch, self._make, self._lasts_ns = watch, make, lasts_ns
        self._lock = threading.Lock()
        self._latest: Rendered[A_co] | None = None

    def current(self) -> Rendered[A_co] | None:
        """Return the last rendered answer if it is still valid."""
        latest, lasts_ns = self._latest, self._lasts_ns
        if latest is None:
            return None
        same = latest.version == self._watch.version
        if same and lasts_ns is None:
            return latest
        age_ns = monotonic_ns() - latest.made_ns
        return latest if age_ns < MIN_RENDER_INTERVAL_NS or (same and age_ns < (lasts_ns or 0)) else None

    def render(self, now_ns: int) -> Rendered[A_co] | None:
        """Return a valid answer, rendered if necessary; None if there is none."""
        with self._lock:
            found = self.current()
            if found is None:
                version = (
                    self._watch.version
                )  # read before rendering, so that a concurrent change causes another rendering
                answer = self._make(now_ns)
                if answer is not None:
                    found = Rendered(version, answer, msgspec.json.encode(answer), monotonic_ns())
                self._latest = found
            return found


@dataclass(frozen=True, slots=True)
class QueryResult(Generic[A_co]):
    """An answer and how long it is valid.

    It is valid until `fresh_until_ns` (ns UTC; None: always) while store and registry do not change. `live_answer` is
    set if the answer follows a live stream, and returns its newest form.
    """

    answer: A_co
    fresh_until_ns: int | None
    live_answer: LiveAnswer[A_co] | None = None


def _answering(channel: Channel) -> tuple[LiveView, Prior] | None:
    """What a channel shows and is measured against, if it answers live."""
    view = channel.view()
    if view is None or view.opening.prior is None or not channel.availability.answers:
        return None
    return view, view.opening.prior


def levels_answer(channel: Channel, source: LiveSource, tick_e9: int) -> LevelsAnswer | None:
    """Return `GET /api/levels` of a channel; None if it is not live."""
    found = _answering(channel)
    if found is None:
        return None
    view, prior = found
    pocs, highs, lows = describe.carried(view.opening.carried, tick_e9)
    return LevelsAnswer(
        symbol=channel.key.contract.root, data_source=source, live=True, as_of=None,
        updated_at=iso_timestamp(view.last_ns), last_price=number(view.last_ticks * tick_e9),
        bias=view.bias.bias.value, developing=describe.developing(view.profile, tick_e9),
        prior=describe.value(prior.poc, prior.vah, prior.val, tick_e9),
        overnight=describe.high_low(view.overnight, tick_e9),
        naked_pocs=pocs, poor_highs=highs, poor_lows=lows, playbook=describe.playbook(view, tick_e9),
    )  # fmt: skip


def context_answer(channel: Channel, source: LiveSource, tick_e9: int) -> ContextAnswer | None:
    """Return `GET /api/context` of a channel; None if it is not live."""
    found = _answering(channel)
    if found is None:
        return None
    view, _ = found
    opening = view.opening
    pocs, highs, lows = describe.carried(opening.carried, tick_e9)
    return ContextAnswer(
        symbol=channel.key.contract.root, data_source=source, live=True, as_of=None,
        updated_at=iso_timestamp(view.last_ns), state="live", reason=state_text("live"), feed=channel.key.feed,
        contract=channel.key.contract.key, rolled_from=opening.rolled_from, invented=channel.simulated,
        disclaimer=DISCLAIMER, method=describe.method(view.ladder),
        session=describe.open_session(view, channel.key.feed, tick_e9),
        overnight=describe.high_low(view.overnight, tick_e9),
        ib_extensions=describe.ib_extensions(view.profile, tick_e9),
        bias=view.bias.bias.value, bias_votes=describe.votes(view.bias.votes),
        naked_pocs=pocs, poor_highs=highs, poor_lows=lows, damaged_sessions=describe.damaged(opening.damaged),
        completeness=describe.completeness(opening.incomplete),
    )  # fmt: skip


def profile_answer(channel: Channel, tick_e9: int) -> ProfileAnswer | None:
    """Return `GET /api/profile` of a channel; None if it is not live."""
    found = _answering(channel)
    if found is None:
        return None
    view, _ = found
    return ProfileAnswer(
        symbol=channel.key.contract.root, tick_size=number(tick_e9),
        levels=describe.open_session(view, channel.key.feed, tick_e9),
        method=describe.method(view.ladder), rows=describe.rows(view.ladder, tick_e9),
    )  # fmt: skip


class LiveAnswers:
    """Live answers of channels. They are cached with the channel, so all instances share them."""

    def __init__(self, universe: Universe) -> None:
        self._universe = universe

    def levels(self, seen: VisibleChannel) -> LiveAnswer[LevelsAnswer]:
        """Return the levels answer of a channel."""
        channel, source, tick_e9 = seen.channel, seen.source, self._tick_e9(seen)
        live_answer = LiveAnswer(channel, lambda _: levels_answer(channel, source, tick_e9))
        return cast(
            "LiveAnswer[LevelsAnswer]", channel.cached_answers.setdefault(("levels", source), live_answer)
        )

    def context(self, seen: VisibleChannel) -> LiveAnswer[ContextAnswer]:
        """Return the context answer of a channel."""
        channel, source, tick_e9 = seen.channel, seen.source, self._tick_e9(seen)
        live_answer = LiveAnswer(channel, lambda _: context_answer(channel, source, tick_e9))
        return cast(
            "LiveAnswer[ContextAnswer]", channel.cached_answers.setdefault(("context", source), live_answer)
        )

    def profile(self, seen: VisibleChannel) -> LiveAnswer[ProfileAnswer]:
        """Return the profile answer of a channel; it does not contain the name of the source."""
        channel, tick_e9 = seen.channel, self._tick_e9(seen)
        live_answer = LiveAnswer(channel, lambda _: profile_answer(channel, tick_e9))
        return cast("LiveAnswer[ProfileAnswer]", channel.cached_answers.setdefault(("profile",), live_answer))

    def live_bytes(self, seen: VisibleChannel) -> tuple[int, bytes, float, str] | None:
        """Return version, JSON, last price and time of `GET /api/levels`; None if the channel is not live."""
        if not seen.channel.availability.answers:
            return None
        made = self.levels(seen).render(0)
        if made is None or made.answer.last_price is None or made.answer.updated_at is None:
            return None
        return made.version, made.body, made.answer.last_price, made.answer.updated_at

    def _tick_e9(self, seen: VisibleChannel) -> int:
        return self._universe.products[seen.channel.key.contract.root].tick_e9
