"""Replays recordings through the live engine of an installation, at full speed."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

from outcry.app.installation import Installation
from outcry.app.live import live_service
from outcry.feeds.replay import ReplayFeed, readings_of
from outcry.feeds.replay_pacing import pacer_for_speed
from outcry.recordings.file_model import ReadOptions
from outcry.recordings.formats.file_library import FileLibrary


def replay(installation: Installation, files: Sequence[Path], options: ReadOptions) -> None:
    """Replay files as a feed of the operator until it ends. Raises `FileRefused`."""
    readings = readings_of(FileLibrary(), installation.reference.universe, files, options)
    feed = ReplayFeed(readings, installation.reference.calendar, pacer_for_speed(None, installation.clock))

    async def run() -> None:
        engine = live_service(installation).engine
        await engine.start()
        await engine.attach(0, feed)
        await engine.stop()

    with installation.log.exclusively():
        asyncio.run(run())
