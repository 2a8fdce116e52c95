"""A stalled disk: answers come from memory, probes report it, and logging delays no request."""

import io
import json
import threading
from time import monotonic_ns

from tests.api.harness import FakeQuery, MemoryAccounts, build_harness, served
from tests.timeouts import wait_until

from outcry.base.log_writer import LogWriter

LEVELS = "/api/levels?symbol=ES"


class FrozenQuery(FakeQuery):
    """Query whose store does not respond while `thawed` is clear."""

    def __init__(self, accounts: MemoryAccounts) -> None:
        super().__init__(accounts)
        self.thawed = threading.Event()
        self.thawed.set()

    def revision(self) -> int:
        assert self.thawed.wait(30), "the store was never thawed"
        return super().revision()


def test_answers_go_on_while_the_disk_of_the_store_hangs() -> None:
    """With a stalled disk, cached data is served: 200 and degraded.

    If the store does not respond for an unknown reason, the answer is 502.
    """
    frozen = [False]
    parts = {"frozen": lambda: frozen[0], "degraded": {"disk": lambda: frozen[0]}}
    built = build_harness(FrozenQuery, parts=parts)
    with served(built) as harness:
        key = harness.key()
        assert harness.get(LEVELS, key).status == 200
        assert json.loads(harness.get("/healthz").body) == {"status": "ok"}
        harness.query.thawed.clear()  # type: ignore[attr-defined]
        try:
            wait_until(lambda: monotonic_ns() >= harness.app.edge.poller.fresh_until_ns)
            frozen[0] = True
            assert harness.get(LEVELS, key).status == 200
            for probe in ("/readyz", "/healthz"):
                reply = harness.get(probe)
                assert reply.status == 200
                assert json.loads(reply.body) == {"status": "degraded", "parts": ["disk"]}
            frozen[0] = False
            assert harness.get(LEVELS, key).status == 502
            assert harness.get("/readyz").status == 502
        finally:
            harness.query.thawed.set()  # type: ignore[attr-defined]


class Pipe(io.BytesIO):
    """Log target that accepts lines once the test reads them."""

    def __init__(self) -> None:
        super().__init__()
        self.asked, self.read_on = threading.Event(), threading.Event()

    def write(self, data: bytes) -> int:  # type: ignore[override]
        self.asked.set()
        assert self.read_on.wait(30)
        return super().write(data)


def test_log_lines_wait_for_their_reader_and_nobody_for_them() -> None:
    """Log lines that fit into memory are written in order, the rest is counted.

    The buffer has 10 bytes; the line being written does not count.
    """
    pipe = Pipe()
    lines = LogWriter(pipe, most_waiting_bytes=10)
    lines.write(b"one\n")
    assert pipe.asked.wait(30)
    lines.write(b"two\n")
    lines.write(b"three\n")
    lines.write(b"four\nfive\n")
    pipe.read_on.set()
    lines.close()
    written = pipe.getvalue().splitlines()
    assert written[:3] == [b"one", b"two", b"three"]
    assert json.loads(written[3])["lines"] == 2
