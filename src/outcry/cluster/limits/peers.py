"""What replicas tell each other while a subject has no owner: how many passed at each, so that the rest can be divided.

Rule kept: a replica divides once, by what the others hold and have let pass by then, and takes one share of what is
left. So all shares together are no more than was left, whoever asks first.
"""

import asyncio
from collections.abc import Callable, Sequence

import msgspec

from outcry.access.limiter import WINDOW_NS
from outcry.cluster.calls import BusDown, CallRefused, Calls, NobodyServes
from outcry.cluster.limits.messages import encode, peer_name
from outcry.cluster.limits.subject import SubjectState
from outcry.cluster.presence import Presence

_PATIENCE_S = 0.04
#: Who did not answer is not asked again for so long.
_SILENCE_NS = 1_000_000_000
_read_subjects = msgspec.msgpack.Decoder(list[str]).decode
_read_counts = msgspec.msgpack.Decoder(list[int]).decode


class Peers:
    """The other replicas. `find`: what is kept here of a subject."""

    def __init__(
        self, calls: Calls, presence: Presence, roles: Sequence[str], find: Callable[[str], SubjectState | None],
        now_ns: Callable[[], int],
    ) -> None:  # fmt: skip
        self._calls, self._presence, self._roles = calls, presence, roles
        self._find, self._now_ns = find, now_ns
        self._wanted: dict[str, SubjectState] = {}
        self._asking: asyncio.Task[None] | None = None
        self._silent_until_ns = 0

    @property
    def names(self) -> set[str]:
        """All replicas there are, this one among them."""
        return {self._presence.name, *(name for role in self._roles for name in self._presence.members(role))}

    async def divide(self, kept: SubjectState) -> None:
        """Take a share of what is left of a subject's window, unless that was done or somebody does not tell."""
        now_ns = self._now_ns()
        if now_ns - kept.divided_ns < WINDOW_NS or now_ns < self._silent_until_ns:
            return
        self._wanted[kept.subject] = kept
        if self._asking is None:
            self._asking = asyncio.get_running_loop().create_task(self._divide())
        await asyncio.shield(self._asking)

    async def answer(self, body: bytes) -> bytes:
        """How many passed here, or still may, of each subject asked for."""
        now_ns = self._now_ns()
        found = (self._find(subject) for subject in _read_subjects(body))
        return encode([0 if kept is None else kept.claimed(now_ns) for kept in found])

    async def _divide(self) -> None:
        await asyncio.sleep(0)  # all of this turn
        wanted, self._wanted, self._asking = list(self._wanted.values()), {}, None
        names = self.names - {self._presence.name}
        body = encode([kept.subject for kept in wanted])
        told = await asyncio.gather(*(self._counts(name, body, len(wanted)) for name in names))
        now_ns = self._now_ns()
        for place, kept in enumerate(wanted):
            counts = [counts[place] for counts in told if counts is not None]
            if len(counts) == len(names):
                kept.divide(sum(counts), len(names) + 1, now_ns)

    async def _counts(self, name: str, body: bytes, count: int) -> list[int] | None:
        try:
            return _read_counts(await self._calls.ask(peer_name(name), body, _PATIENCE_S))
        except NobodyServes:  # it has ended
            return [0] * count
        except (BusDown, CallRefused, msgspec.DecodeError):
            self._silent_until_ns = self._now_ns() + _SILENCE_NS
            return None
