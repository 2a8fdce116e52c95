"""Divide the rest of a limit among the replicas (processes that apply it) while its owner is unavailable.

Once a window (60 seconds) a replica asks all others how many requests they claim. It subtracts these from the limit and
takes an equal share of the rest. So all shares together never exceed the rest, in whatever order the replicas do this.
A replica that reaches the owner claims no number, because the owner may grant it any: then nothing is divided.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from enum import Enum, auto

import msgspec

from outcry.cluster.calls import BusDown, CallRefused, NobodyServes
from outcry.cluster.limits.messages import encode, peer_name
from outcry.cluster.limits.subject import SubjectState
from outcry.cluster.nats.calls import NatsCalls
from outcry.cluster.nats.presence import NatsPresence
from outcry.live.partitions import partition_of

#: Longer than a replica needs to find out whether it reaches an owner (`shared_limiter.PATIENCE_S`).
_PATIENCE_S = 0.5
#: After a missing answer, no division is tried for this long.
_SILENCE_NS = 1_000_000_000
#: The claim of a replica that reaches the owner.
_OWNED = -1
_read_subjects = msgspec.msgpack.Decoder(list[str]).decode
_read_counts = msgspec.msgpack.Decoder(list[int]).decode


class Division(Enum):
    """Result of an attempt to divide a limit.

    DIVIDED: this replica has a share. SILENT: another replica does not respond. OWNED: another replica reaches the
    owner. RELEASED: an owner, or a message to one, has ended the division meanwhile.
    """

    DIVIDED = auto()
    SILENT = auto()
    OWNED = auto()
    RELEASED = auto()


class Peers:
    """The other replicas (processes that apply limits).

    find: looks up the state of a subject (such as an API key) at this replica. reaches: asks the owners of partitions
    whether they respond, and returns the partitions of those that do.
    """

    def __init__(
        self, calls: NatsCalls, presence: NatsPresence, roles: Sequence[str],
        find: Callable[[str], SubjectState | None],
        reaches: Callable[[Collection[int]], Awaitable[Collection[int]]],
        now_ns: Callable[[], int],
    ) -> None:  # fmt: skip
        self._calls, self._presence, self._roles = calls, presence, roles
        self._find, self._reaches, self._now_ns = find, reaches, now_ns
        self._pending: dict[str, SubjectState] = {}
        self._asking: asyncio.Task[dict[str, Division]] | None = None
        self._silent_until_ns = 0

    @property
    def names(self) -> set[str]:
        """Names of all replicas, this one included."""
        return {self._presence.name, *(name for role in self._roles for name in self._presence.members(role))}

    async def divide(self, state: SubjectState) -> Division:
        """Reserve this replica's share of an API key's remaining requests, after asking the other replicas for theirs.

        A share lasts for a window. After another replica did not respond, none is asked for a second.
        """
        now_ns = self._now_ns()
        if state.divided(now_ns):
            return Division.DIVIDED
        if now_ns < self._silent_until_ns:
            return Division.SILENT
        self._pending[state.subject] = state
        if self._asking is None:
            self._asking = asyncio.ensure_future(self._divide())
        return (await asyncio.shield(self._asking))[state.subject]

    async def answer(self, body: bytes) -> bytes:
        """Answer another replica: how many requests this one claims for each API key in the message.

        The answer is `_OWNED` for a key whose owner responds to this replica.
        """
        subjects = _read_subjects(body)
        owned = await self._reaches({partition_of(subject) for subject in subjects})
        now_ns, claims = self._now_ns(), list[int]()
        for subject in subjects:
            state = self._find(subject)
            if partition_of(subject) in owned:
                claims.append(_OWNED)
            else:
                claims.append(0 if state is None else state.claimed(now_ns))
        return encode(claims)

    async def _divide(self) -> dict[str, Division]:
        await asyncio.sleep(0)  # combine all subjects of this event-loop turn
        pending, self._pending, self._asking = list(self._pending.values()), {}, None
        releases = [state.releases for state in pending]
        names = sorted(self.names - {self._presence.name})
        body = encode([state.subject for state in pending])
        replies = await asyncio.gather(*(self._counts(name, body, len(pending)) for name in names))
        now_ns, found = self._now_ns(), dict[str, Division]()
        for place, state in enumerate(pending):
            counts = [counts[place] for counts in replies if counts is not None]
            if _OWNED in counts:
                found[state.subject] = Division.OWNED
            elif len(counts) < len(names):
                found[state.subject] = Division.SILENT
            elif state.releases != releases[place]:
                found[state.subject] = Division.RELEASED
            else:
                state.divide(sum(counts), len(names) + 1, now_ns)
                found[state.subject] = Division.DIVIDED
        return found

    async def _counts(self, name: str, body: bytes, count: int) -> list[int] | None:
        try:
            return _read_counts(await self._calls.ask(peer_name(name), body, _PATIENCE_S))
        except NobodyServes:  # the process has ended
            return [0] * count
        except (BusDown, CallRefused, msgspec.DecodeError):
            self._silent_until_ns = self._now_ns() + _SILENCE_NS
            return None
