"""What replicas and the owners of limits say to each other.

Rule kept: whatever is said may be said twice, or be lost. Passes that a replica tells of are numbered; every message
says what time it is by its sender's clock, so that clocks need not agree; and of what a replica holds its newest
message counts, whichever comes first.
"""

import msgspec

ROLES = ("api", "web")
#: How long a lease lasts from the moment it was asked for; an owner waits a little longer for word of it.
LEASE_NS = 10_000_000_000


class SubjectReport(msgspec.Struct, array_like=True, frozen=True):
    """What a replica says of one subject.

    asks: how many requests wait for a verdict.
    first, untold: the number of the first pass told of, and when each was (`SlidingWindowLog.told`): those no owner
    ruled on.
    keeps: requests it may let pass by itself after those; lend: whether it would have more.
    """

    subject: str
    limit: int
    asks: int
    first: int
    untold: bytes
    keeps: int
    lend: bool


class PassHistory(msgspec.Struct, array_like=True, frozen=True):
    """What a replica hands to a new owner of a subject; it holds nothing any more. known: when passes were that an
    owner knew of; first, untold: see `SubjectReport`."""

    subject: str
    known: bytes
    first: int
    untold: bytes


class Batch(msgspec.Struct, array_like=True, frozen=True):
    """All a replica says to an owner at once. reigns: of each partition concerned, the reign the replica knows, empty
    for none; pasts: what is handed over of those."""

    replica: str
    now_ns: int
    number: int
    reigns: dict[int, str]
    pasts: dict[int, list[PassHistory]]
    lines: list[SubjectReport]


class LimitDecision(msgspec.Struct, array_like=True, frozen=True):
    """An owner's answer to a line. passed: how many of its requests may pass; lent: how many more the replica may let
    pass by itself; left: how many are left in the window, those lent anywhere among them; reset_ns, retry_ns: until it
    is empty, and until one would pass again, where not all may."""

    passed: int
    lent: int
    left: int
    reset_ns: int
    retry_ns: int


class Answer(msgspec.Struct, array_like=True, frozen=True):
    """An owner's answer to a batch, line by line; None: no verdict. reigns: of each partition its own reign; empty
    where it has none, or wants to hear the past first."""

    owner: str
    reigns: dict[int, str]
    rulings: list[LimitDecision | None]


class LeaseRecall(msgspec.Struct, array_like=True, frozen=True):
    """An owner asks a replica for what it holds of subjects; or, of a partition that is new to it, for all."""

    owner: str
    partition: int
    reign: str
    subjects: list[str]


class RecallReply(msgspec.Struct, array_like=True, frozen=True):
    """The replica's answer: it holds nothing of it any more."""

    now_ns: int
    number: int
    pasts: list[PassHistory]


encode = msgspec.msgpack.Encoder().encode
read_batch = msgspec.msgpack.Decoder(Batch).decode
read_answer = msgspec.msgpack.Decoder(Answer).decode
read_recall = msgspec.msgpack.Decoder(LeaseRecall).decode
read_recall_reply = msgspec.msgpack.Decoder(RecallReply).decode


def owner_name(partition: int) -> str:
    """What the owner of a partition's limits is called by."""
    return f"limit.{partition}"


def replica_name(name: str) -> str:
    """What a replica is called by, about what it holds."""
    return f"limit.held.{name}"


def peer_name(name: str) -> str:
    """What a replica is called by, about what passed there."""
    return f"limit.passed.{name}"
