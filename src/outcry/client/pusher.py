"""Pushes a feed's events into a running service, over one connection that is kept.

Rules kept: an event is sent until the service has said that it is taken, so it arrives at least once whatever breaks
on the way; after a fault the pusher waits longer each time, and gives up once nothing has gone forward for a while. A
service that was started anew and has forgotten the run is sent the last seconds again and told so.
"""

import http.client
import random
import secrets
import threading
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from itertools import islice
from urllib.parse import quote, urlsplit

import msgspec

from outcry.client.errors import ApiError, Unreachable, refusal
from outcry.core.instruments import Contract
from outcry.ports.feed import Bars, CaughtUp, Ended, Event, FeedCaps, Gap, Heartbeat, Repaired, Trades
from outcry.services.pushing import KEPT_NS, MEDIA_TYPE, SILENCE_S, WAIT_S, Again, Push, write_push

#: A push holds about this much: far below the most a service takes, so that it can be read and judged at once.
BATCH_BYTES = 512 * 1024
BATCH_EVENTS = 2000
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.1, 5.0
#: How long to try in vain: at first, when the address may be wrong, and once it has worked.
FIRST_PATIENCE_S, PATIENCE_S = 3.0, 120.0
_PASSING = frozenset((429, 500, 502, 503, 504))
_MOST_ANSWER = 64 * 1024


class _Answer(msgspec.Struct):
    next: int


class _Line:
    """One contract. `next`: the number of the first event not taken; `sent`: after the last that may be known.

    kept: events before `next`, back to the trades of the last seconds; pending: those from `next` on.
    """

    def __init__(self) -> None:
        self.next = self.sent = 0
        self.kept: deque[Event] = deque()
        self.pending: deque[Event] = deque()
        self.caught_up: CaughtUp | None = None
        self.again: Again | None = None
        self.at_ns = 0
        self.last: Event | None = None

    def tried(self, count: int) -> None:
        """The service may have the first `count` of those pending, whatever it said."""
        self.sent = max(self.sent, self.next + count)

    def taken(self, until: int) -> bool:
        """Note how far the service is; return whether that is further than before."""
        if not self.next <= until <= self.next + len(self.pending):
            raise Unreachable(
                f"the service counts {until} events, of {self.next + len(self.pending)} there are"
            )
        forward = until > self.next
        while self.next < until:
            event = self.pending.popleft()
            self.next += 1
            self._keep(event)
        if self.again is not None and self.next >= self.again.until:
            self.again = None
        return forward

    def rewind(self) -> None:
        """The service has forgotten this run: begin again with what is kept."""
        self.again = Again(self.sent, self.caught_up)
        self.next -= len(self.kept)
        self.pending.extendleft(reversed(self.kept))
        self.kept.clear()

    def end(self) -> bool:
        """Leave out what was never sent, and end there; False where there is nothing to end."""
        while self.pending and self.next + len(self.pending) > self.sent:
            self.pending.pop()
        at_ns = max((_time_of(event) for event in self.pending), default=0)
        last = self.pending[-1] if self.pending else self.last
        if isinstance(last, Ended) or not (at_ns or self.at_ns):
            return False
        self.pending.append(Ended(max(at_ns, self.at_ns)))
        return True

    def _keep(self, event: Event) -> None:
        if isinstance(event, CaughtUp):
            self.caught_up = event
        self.at_ns, self.last = max(self.at_ns, _time_of(event)), event
        self.kept.append(event)
        while self.kept and not _is_recent(self.kept[0], self.at_ns):
            self.kept.popleft()


class Pusher:
    """One run of one feed. `url`: base address of the service; `key`: made for pushing.

    Raises `ApiError` where the service refuses and `Unreachable` where it does not answer, or not sensibly, for
    `patience_s`. All but `stop` is for one thread at a time.
    """

    def __init__(
        self, url: str, key: str, feed: str, caps: FeedCaps, *,
        patience_s: float = PATIENCE_S, timeout_s: float = WAIT_S + 15,
    ) -> None:  # fmt: skip
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
            raise ValueError(f"{url!r} is no base address of a service")
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        self.session = secrets.token_hex(16)
        self._base, self._caps = url.rstrip("/"), caps
        self._path = f"{parts.path.rstrip('/')}/api/ingest?feed={quote(feed)}"
        self._headers = {"x-api-key": key, "content-type": MEDIA_TYPE, "accept": "application/json"}
        self._connection = kind(parts.hostname, parts.port, timeout=timeout_s)
        self._patience_s = patience_s
        self._stopped = threading.Event()
        self._lines: dict[Contract, _Line] = {}
        self._worked = False

    def push(self, contract: Contract, events: Sequence[Event]) -> None:
        """Send events of a contract; return once the service has taken them all."""
        line = self._lines.setdefault(contract, _Line())
        line.pending.extend(events)
        if line.pending:
            self._send(contract, line)

    def beat(self, contract: Contract) -> None:
        """Say that there is nothing to say: a link is taken for dead after `SILENCE_S`."""
        line = self._lines.setdefault(contract, _Line())
        line.pending.extend([Heartbeat(line.at_ns)] if line.at_ns else [])
        self._send(contract, line)

    def stop(self) -> None:
        """Let the push under way on another thread be the last: it ends, if need be with `Unreachable`."""
        self._stopped.set()

    def bye(self) -> None:
        """Say, once and if anybody hears it, that every contract ends here, though more might have come."""
        for contract, line in self._lines.items():
            if line.end():
                with suppress(ApiError, Unreachable):
                    self._attempt(contract, line)

    def close(self) -> None:
        """Hang up."""
        self._connection.close()

    def _send(self, contract: Contract, line: _Line) -> None:
        """Send what is pending, at least one push."""
        moved_s, failures = time.monotonic(), 0
        while True:
            wait_s = self._attempt(contract, line)
            if wait_s is None:
                moved_s, failures = time.monotonic(), 0
                if not line.pending:
                    return
                if self._stopped.is_set():
                    raise Unreachable("the push was stopped")
                continue
            pause_s = min(FIRST_PAUSE_S * 2**failures, LONGEST_PAUSE_S) * random.uniform(0.5, 1.0)  # noqa: S311
            failures += 1
            left_s = moved_s + self._patience() - time.monotonic()
            if left_s <= 0 or self._stopped.wait(min(wait_s or pause_s, left_s)):
                raise self._problem

    def _patience(self) -> float:
        if isinstance(self._problem, ApiError) and self._problem.body.get("reason") == "occupied":
            return min(
                self._patience_s, SILENCE_S + LONGEST_PAUSE_S
            )  # a run that was killed is given up after that
        return self._patience_s if self._worked else min(FIRST_PATIENCE_S, self._patience_s)

    _problem: ApiError | Unreachable = Unreachable("nothing was tried")

    def _attempt(self, contract: Contract, line: _Line) -> float | None:
        """Send once. None where that went forward; else how long to wait, 0 where nobody said."""
        events = _batch(line.pending)
        try:
            taken = self._post(Push(self.session, contract, self._caps, line.next, events, line.again))
        except ApiError as problem:
            if problem.status >= 500:
                line.tried(len(events))
            if (
                problem.code == "invalid_request"
                and problem.body.get("reason") == "hole"
                and self._rewound(line)
            ):
                return None
            if problem.status not in _PASSING and problem.body.get("reason") != "occupied":
                raise
            self._problem = problem
            return min(problem.body.get("retry_after_ms", 0) / 1000, LONGEST_PAUSE_S)
        except Unreachable as problem:
            line.tried(len(events))
            self._problem = problem
            return 0.0
        line.tried(len(events))
        self._worked = True
        if line.taken(taken) or not events:
            return None
        self._problem = Unreachable(f"{self._base} takes nothing")
        return 0.001  # it has waited long enough itself

    @staticmethod
    def _rewound(line: _Line) -> bool:
        """Begin again where the service has forgotten the run; not where it has just been told to."""
        if line.again is not None or not line.next:
            return False
        line.rewind()
        return True

    def _post(self, push: Push) -> int:
        body = write_push(push)
        try:
            self._connection.request("POST", self._path, body, self._headers)
            response = self._connection.getresponse()
            said = response.read(_MOST_ANSWER)
        except (OSError, http.client.HTTPException) as problem:
            self._connection.close()
            why = problem or type(problem).__name__
            raise Unreachable(f"{self._base} does not answer: {why}") from problem
        if response.status != 200:
            self._connection.close()  # it may not have read all of what was sent
            raise refusal(response.status, said)
        try:
            return msgspec.json.decode(said, type=_Answer).next
        except msgspec.DecodeError as problem:
            self._connection.close()  # cut short, perhaps: nothing that follows belongs to what is asked next
            raise Unreachable(f"{self._base} gave no answer of this service: {problem}") from problem


def _batch(pending: deque[Event]) -> tuple[Event, ...]:
    """The first events of those pending, about `BATCH_BYTES` of them, and one at least."""
    size = count = 0
    for event in islice(pending, BATCH_EVENTS):
        size += event.rows.nbytes if isinstance(event, Trades | Bars) else 64
        if count and size > BATCH_BYTES:
            break
        count += 1
    return tuple(islice(pending, count))


def _time_of(event: Event) -> int:
    """The newest instant (ns UTC) an event tells of; 0 for one that tells of none."""
    match event:
        case Trades(rows) | Bars(rows):
            return int(rows["ts_event"].max())
        case CaughtUp(at_ns) | Heartbeat(at_ns) | Ended(at_ns):
            return at_ns
        case Gap() | Repaired():
            return event.to_ns
        case _:
            return 0


def _is_recent(event: Event, now_ns: int) -> bool:
    return isinstance(event, Trades) and int(event.rows["ts_event"].max()) >= now_ns - KEPT_NS
