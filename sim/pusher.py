"""Pushes recordings into the service as `outcry replay` does, many concurrently, in a separate process.

Run as `python -m sim.pusher`. It reads one line of JSON for each recording from standard input, and writes one when
the recording was pushed completely or failed.
"""

import asyncio
import json
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from datetime import date
from subprocess import PIPE, Popen
from threading import Thread
from typing import Any

import uvloop
from sim.market import PushedRecording

from outcry.agent import pusher
from outcry.base.clock import SystemClock
from outcry.cli.playing import Player
from outcry.client import ApiError, Unreachable
from outcry.feeds.replay_pacing import pacer_for_speed
from outcry.trades.reference_tables import Reference, load_reference

# A replay stops early if no push was ever accepted, because its URL may be wrong. Here the URL is right.
pusher.FIRST_PATIENCE_S = pusher.PATIENCE_S


@dataclass(frozen=True)
class Job:
    """A recording to push: target URL, key, and speed as a multiple of real time."""

    recording: PushedRecording
    days: tuple[str, ...]
    url: str
    key: str
    speed: float


async def _push(job: Job, reference: Reference) -> None:
    try:
        feed = job.recording.replay(
            reference,
            [date.fromisoformat(day) for day in job.days],
            pacer_for_speed(job.speed, SystemClock()),
        )
        player = Player(feed)
        await player.run(job.url, job.key)
        result = {"owner": job.recording.owner, "feed": job.recording.feed, "rows": player.played.rows}
    except (ApiError, Unreachable) as problem:
        result = {"owner": job.recording.owner, "feed": job.recording.feed, "problem": str(problem)}
    print(json.dumps(result), flush=True)


async def _run() -> None:
    reference = load_reference()
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    loop.set_default_executor(ThreadPoolExecutor(4))
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    async with asyncio.TaskGroup() as tasks:
        while line := await reader.readline():
            job: dict[str, Any] = json.loads(line)
            recording = PushedRecording(**job["recording"] | {"roots": tuple(job["recording"]["roots"])})
            tasks.create_task(
                _push(Job(recording, tuple(job["days"]), job["url"], job["key"], job["speed"]), reference)
            )


class Pusher:
    """The pushing process, as a context manager. `heard`: called when a recording has ended."""

    def __init__(self, on_result: Callable[[dict[str, Any]], object]) -> None:
        self._on_result = on_result
        self._process: Popen[str]

    def __enter__(self) -> "Pusher":
        self._process = Popen([sys.executable, "-m", "sim.pusher"], stdin=PIPE, stdout=PIPE, text=True)
        Thread(target=self._listen, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()

    def push(self, jobs: Sequence[Job]) -> None:
        """Start pushing."""
        assert self._process.stdin is not None
        for job in jobs:
            self._process.stdin.write(json.dumps(asdict(job)) + "\n")
        self._process.stdin.flush()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._on_result(json.loads(line))


if __name__ == "__main__":
    uvloop.run(_run())
