"""Messages between replicas, which apply request limits, and the owners of limits, which count the requests.

A pass is an allowed request; a lease is a number of requests that a replica may allow without asking. A message may be
lost or repeated, so passes are numbered and the owner counts each once. Every message carries its sender's monotonic
time, so clocks need not agree. The newest message of a replica defines its leases.
"""

import msgspec

ROLES = ("api", "web")
#: Duration of a lease from the request on; the owner adds a grace period for the report to arrive.
LEASE_NS = 10_000_000_000


class SubjectReport(msgspec.Struct, array_like=True, frozen=True):
    """A replica's report on one subject, that is, on whatever one limit applies to, such as an API key.

    asks: number of client requests that wait for the owner's decision.

    unreported: times of the passes (allowed requests) that no owner has counted yet, packed. first: number of the first
    of them.

    leased: requests left of the replica's lease (requests it may allow without asking). wants_lease: whether the
    replica wants a lease.
    """

    subject: str
    limit: int
    asks: int
    first: int
    unreported: bytes
    leased: int
    wants_lease: bool


class PassHistory(msgspec.Struct, array_like=True, frozen=True):
    """The requests of one API key or client address that a replica has allowed, sent to a new owner without counts.

    The replica gives up its lease before it sends this. known: times of the passes that the previous owner counted,
    packed. first, unreported: see `SubjectReport`.
    """

    subject: str
    known: bytes
    first: int
    unreported: bytes


class Batch(msgspec.Struct, array_like=True, frozen=True):
    """All reports of a replica (process that applies limits) to one owner, in one message.

    epochs: for each partition in the message, the epoch (ownership term) that the replica knows, empty if unknown.
    histories: the allowed requests of the partitions whose epoch is unknown. lost: partitions whose owner did not
    respond before, so replicas may have divided limits without it.
    """

    replica: str
    now_ns: int
    number: int
    epochs: dict[int, str]
    histories: dict[int, list[PassHistory]]
    lines: list[SubjectReport]
    lost: list[int]


class LimitDecision(msgspec.Struct, array_like=True, frozen=True):
    """An owner's answer to one `SubjectReport`.

    passed: how many of the waiting requests may pass. lease_added: requests added to the replica's lease. left:
    requests left in the window, leased ones included. reset_ns: time until the window is empty. retry_ns: time until a
    request would pass again, 0 if all may pass.
    """

    passed: int
    lease_added: int
    left: int
    reset_ns: int
    retry_ns: int


class Answer(msgspec.Struct, array_like=True, frozen=True):
    """An owner's answer to a `Batch`: one decision for each report, or None where it cannot decide.

    epochs: the owner's epoch (ownership term) of each partition. It is empty for a partition that it does not own, or
    for which it needs the replica's history first. starting: partitions whose counts it is still collecting.
    """

    owner: str
    epochs: dict[int, str]
    decisions: list[LimitDecision | None]
    starting: list[int]


class LeaseRecall(msgspec.Struct, array_like=True, frozen=True):
    """An owner's request that replicas give back leases, or report what they allowed.

    A lease is a number of requests that a replica may allow without asking. subjects: those whose leases are recalled.
    epoch: set by a new owner, which has no counts yet and asks for all requests that were allowed.
    """

    owner: str
    partition: int
    epoch: str
    subjects: list[str]


class RecallReply(msgspec.Struct, array_like=True, frozen=True):
    """A replica's answer to a `LeaseRecall`: what it allowed. It gives up its recalled leases before it answers."""

    now_ns: int
    number: int
    histories: list[PassHistory]


encode = msgspec.msgpack.Encoder().encode
read_batch = msgspec.msgpack.Decoder(Batch).decode
read_answer = msgspec.msgpack.Decoder(Answer).decode
read_recall = msgspec.msgpack.Decoder(LeaseRecall).decode
read_recall_reply = msgspec.msgpack.Decoder(RecallReply).decode


def owner_name(partition: int) -> str:
    """Return the name under which the process that counts the requests of a partition receives calls."""
    return f"limit.{partition}"


def replica_name(name: str) -> str:
    """Return the name under which a replica (process that applies limits) receives lease recalls."""
    return f"limit.held.{name}"


def peer_name(name: str) -> str:
    """Return the name under which a replica (process that applies limits) answers other replicas about its counts."""
    return f"limit.passed.{name}"
