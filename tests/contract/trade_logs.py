"""Trade logs of the contract suite, and functions that open them."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from support.engines.jetstream import JetStream

from outcry.base.log_events import discard
from outcry.cluster.nats.log import JetStreamLog
from outcry.cluster.nats.thread import LinkThread
from outcry.live.background_log import BackgroundLog
from outcry.live.file_log import FileLog
from outcry.live.trade_log import TradeLog

KEY = "0/demo/ESZ2026"
OTHER = "3/replay/6EZ2026"


@contextmanager
def files(folder: Path) -> Iterator[FileLog]:
    log = FileLog(folder / "log", segment_bytes=200, most_open=3)
    with log.exclusively():
        yield log


@contextmanager
def background(folder: Path) -> Iterator[BackgroundLog]:
    log = BackgroundLog(FileLog(folder / "log", segment_bytes=200, most_open=3))
    with log.exclusively():
        yield log


@contextmanager
def jetstream_log(server: JetStream) -> Iterator[JetStreamLog]:
    """Return the log of a process with its own connection."""
    with LinkThread(server.urls, discard) as thread:
        log = JetStreamLog(thread, discard)
        yield log
        log.sync()


def frames(log: TradeLog, first: int = 0, key: str = KEY) -> list[tuple[int, int, bytes]]:
    return [(frame.first, frame.count, frame.blob) for frame in log.read(key, first)]
