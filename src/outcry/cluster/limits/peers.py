"""Divide the rest of a limit among the replicas (processes that apply it) while its owner is unavailable.

Once a window (60 seconds) a replica asks all others how many requests they claim. It subtracts these from the limit and
takes an equal share of the rest. So all shares together never exceed the rest, in whatever order the replicas do this.
"""

import asyncio
from collections.abc import Callable, Sequence

import msgspec

from outcry.access.limiter import WINDOW_NS
from outcry.cluster.calls import BusDown, CallRefused, NobodyServes
from outcry.cluster.limits.messages import encode, peer_name
from outcry.cluster.limits.subject import SubjectState
from outcry.cluster.nats.calls import NatsCalls
from outcry.cluster.nats.presence import NatsPresence

_PATIENCE_S = 0.04
#: After a missing answer, no division is tried for this long.
_SILENCE_NS = 1_000_000_000
_read_subjects = msgspec.msgpack.Decoder(list[str]).decode
_read_counts = msgspec.msgpack.Decoder(list[int]).decode


class Peers:
    """The other replicas (processes that apply limits). `find`: looks up the state of a subject at this replica."""

    def __init__(
        self, calls: NatsCalls, presence: NatsPresence, roles: Sequence[str],
        find: Callable[[str], SubjectState | None], now_ns: Callable[[], int],
    ) -> None:  # fmt: skip
        self._calls, self._presence, self._roles = calls, presence, roles
        self._find, self._now_ns = find, now_ns
        self._pending: dict[str, SubjectState] = {}
        self._asking: asyncio.Task[None] | None = None
        self._silent_until_ns = 0

    @property
    def names(self) -> set[str]:
        """Names of all replicas, this one included."""
        return {self._presence.name, *(name for role in self._roles for name in self._presence.members(role))}

    async def divide(self, state: SubjectState) -> None:
        """Reserve this replica's share of an API key's remaining requests, after asking the other replicas for theirs.

        Does nothing if this replica has a share for this window already, or while another replica does not respond.
        """
        now_ns = self._now_ns()
        if now_ns - state.divided_ns < WINDOW_NS or now_ns < self._silent_until_ns:
            return
        self._pending[state.subject] = state
        if self._asking is None:
            self._asking = asyncio.ensure_future(self._divide())
        await asyncio.shield(self._asking)

    async def answer(self, body: bytes) -> bytes:
        """Answer another replica: how many requests this one claims for each API key in the message."""
        now_ns = self._now_ns()
        found = (self._find(subject) for subject in _read_subjects(body))
        return encode([0 if state is None else state.claimed(now_ns) for state in found])

    async def _divide(self) -> None:
        await asyncio.sleep(0)  # combine all subjects of this event-loop turn
        pending, self._pending, self._asking = list(self._pending.values()), {}, None
        names = self.names - {self._presence.name}
        body = encode([state.subject for state in pending])
        replies = await asyncio.gather(*(self._counts(name, body, len(pending)) for name in names))
        now_ns = self._now_ns()
        for place, state in enumerate(pending):
            counts = [counts[place] for counts in replies if counts is not None]
            if len(counts) == len(names):
                state.divide(sum(counts), len(names) + 1, now_ns)

    async def _counts(self, name: str, body: bytes, count: int) -> list[int] | None:
        try:
            return _read_counts(await self._calls.ask(peer_name(name), body, _PATIENCE_S))
        except NobodyServes:  # the process has ended
            return [0] * count
        except (BusDown, CallRefused, msgspec.DecodeError):
            self._silent_until_ns = self._now_ns() + _SILENCE_NS
            return None
