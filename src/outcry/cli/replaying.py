"""`outcry replay`: play recordings into a running service as a live feed."""

import asyncio
import math
import os
import signal
import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from outcry.access import key_format as form
from outcry.access.keys import KeyRefusal
from outcry.access.model import KeyRow, Role
from outcry.app.installation import Installation, open_installation
from outcry.app.settings import Settings, read_settings
from outcry.base.clock import Clock, SystemClock
from outcry.base.signals import TERMINATION, cancel_on
from outcry.cli.accounts import OPERATOR_NAME
from outcry.cli.playing import Played, Player
from outcry.cli.reading_options import AS_IT_SAYS, Reading
from outcry.cli.whereabouts import service
from outcry.client import ApiError, Unreachable
from outcry.database.database import sqlite_url
from outcry.feeds.replay import ReplayFeed, readings_of
from outcry.feeds.replay_pacing import pacer_for_speed
from outcry.market.units import NANOS_PER_DAY, NANOS_PER_SECOND
from outcry.people.email_address import is_email, spellings
from outcry.recordings.file_model import ReadOptions
from outcry.recordings.formats.file_library import FileLibrary
from outcry.trades.feed import FeedLost
from outcry.trades.push_format import is_feed_name
from outcry.trades.reference_tables import Reference, load_reference

_TERMINATED = 128 + signal.SIGTERM
#: Lifetime of a key created for a replay, in case the replay is killed before it revokes the key.
_LONGEST_DAYS = 7


class NoKey(Exception):
    """There is no key to push with, and none can be created. The message names the remedy."""


@Parameter(name="*")
@dataclass(frozen=True, slots=True)
class Playing:
    """Speed, owner and name of the replayed feed.

    Parameters
    ----------
    speed
        1 is real time, 10 is ten times as fast, 0 is as fast as the service accepts trades.
    owner
        Owner of the feed: operator, or the email address of a user. Default: the user of the key in OUTCRY_KEY, or the
        operator. To let others see the operator's feed, run `outcry grants add --scope live`.
    feed
        Name of the feed. Feeds with different names can run at the same time.
    """

    speed: float = 1.0
    owner: str | None = None
    feed: str = "replay"

    @property
    def fault(self) -> str:
        """The error in the options, or an empty string."""
        owner, feed = self.owner, self.feed
        if not (math.isfinite(self.speed) and 0 <= self.speed <= 1e6):
            return f"Invalid --speed {self.speed}: use a number from 0 (as fast as possible) to 1000000."
        if owner not in {None, OPERATOR_NAME} and not is_email(owner or ""):
            return f"Invalid --owner {(owner or '')[:60]!r}: use `operator` or an email address."
        if not is_feed_name(feed):
            return (
                f"Invalid --feed {feed[:40]!r}: use up to 24 lower-case letters, digits, - and _, starting with a "
                "letter. Device names of Windows, such as aux, are not allowed."
            )
        return ""


AS_IT_HAPPENED = Playing()


def replay(
    *paths: Path,
    playing: Playing = AS_IT_HAPPENED,
    reading: Reading = AS_IT_SAYS,
    url: str | None = None,
    data: Annotated[str | None, Parameter(name="--data")] = None,
) -> int:
    """Play recordings into a running service as a live feed. Levels develop and alerts fire as in a live session.

    Reads the same formats as `outcry import`. Several files and contracts play together in time order. Nothing is
    imported. At the end, or when interrupted, one line reports what was played.

    Pushing trades needs a key created with `outcry keys create --ingest`: set OUTCRY_KEY to it. Without one, the
    command creates a temporary key if the service's data folder is on this machine.

        outcry replay es-2013-10-08.dbn.zst --speed 10

    Parameters
    ----------
    paths
        Files, or folders to search for files.
    url
        URL of the service. Default: OUTCRY_URL, or the service that runs on the data folder.
    data
        Data folder of the service. Default: OUTCRY_DATA.
    """
    wrong = playing.fault if paths else "No PATHS given. Name at least one file or folder."
    if wrong:
        print(f"outcry replay: {wrong}", file=sys.stderr)
        return 2
    clock, address = SystemClock(), service(url, data)
    try:
        with _admitted(read_settings(data=data), playing.owner, clock) as (key, reference):
            player = _player(paths, reading.options(clock.now_ns()), reference, playing, clock)
            return _play(player, address, key)
    except (ApiError, FeedLost, NoKey, Unreachable, ValueError) as problem:
        print(f"outcry: {problem}", file=sys.stderr)
        return 1


def _player(
    paths: tuple[Path, ...], options: ReadOptions, reference: Reference, playing: Playing, clock: Clock
) -> Player:
    readings = readings_of(FileLibrary(reference.calendar), reference.universe, paths, options)
    pace = pacer_for_speed(playing.speed or None, clock)
    return Player(ReplayFeed(readings, reference.calendar, pace, name=playing.feed))


def _play(player: Player, url: str, key: str) -> int:
    """Replay to the end or until interrupted, then report what was played; return the exit status."""
    try:
        asyncio.run(_until_signalled(player, url, key))
    except asyncio.CancelledError:
        return _TERMINATED
    finally:
        _print_summary(player.played)
    return 0


async def _until_signalled(player: Player, url: str, key: str) -> None:
    task = asyncio.current_task()
    if task is not None:
        cancel_on(task, TERMINATION)
    await player.run(url, key)


def _print_summary(played: Played) -> None:
    if played.rows:
        contracts = ", ".join(sorted(contract.key for contract in played.contracts))
        first, last = _instant(played.first_ns), _instant(played.last_ns)
        print(f"Played {played.rows:,} rows of {contracts}, {first} to {last}", flush=True)


def _instant(at_ns: int) -> str:
    return f"{datetime.fromtimestamp(at_ns // NANOS_PER_SECOND, UTC):%Y-%m-%dT%H:%M:%SZ}"


@contextmanager
def _admitted(settings: Settings, owner: str | None, clock: Clock) -> Generator[tuple[str, Reference]]:
    """Yield a key to push with, and the tables of products and sessions. A temporary key is revoked at the end."""
    given = os.environ.get("OUTCRY_KEY", "")
    if not _is_here(settings):
        if owner is not None:
            raise NoKey(
                "--owner needs access to the service's data folder. Name the folder with --data or OUTCRY_DATA."
            )
        if not given:
            raise NoKey(
                "No key to push trades with. Set OUTCRY_KEY to a key created with `outcry keys create --ingest`, or "
                "name the service's data folder with --data."
            )
        yield given, load_reference(settings.folder, variants=settings.session_variants)
        return
    with open_installation(settings, clock) as installation:
        known = installation.keys.find(given, clock.now_ns()) if given else KeyRefusal.MISSING
        if owner is None and _is_good(known):
            yield given, installation.reference
            return
        if owner is None and isinstance(known, KeyRow):
            owner = known.email
        key = _new_key(installation, owner or OPERATOR_NAME)
        try:
            yield key, installation.reference
        finally:
            installation.keys.revoke(form.prefix(key), clock.now_ns())


def _is_here(settings: Settings) -> bool:
    """Return whether the service's database can be opened from this machine."""
    return bool(settings.database_url) or Path(str(sqlite_url(settings.folder).database)).is_file()


def _is_good(known: KeyRow | KeyRefusal) -> bool:
    """Return whether the key in OUTCRY_KEY may be able to push. Raises `NoKey` if it certainly cannot.

    A key unknown here may belong to another service.
    """
    if known in {KeyRefusal.MALFORMED, KeyRefusal.REVOKED, KeyRefusal.EXPIRED, KeyRefusal.DISABLED}:
        raise NoKey(
            f"The key in OUTCRY_KEY is {known}. Create a new one with `outcry keys create --ingest`, or unset it."
        )
    return known is KeyRefusal.UNKNOWN or (isinstance(known, KeyRow) and known.role != "read")


def _new_key(installation: Installation, owner: str) -> str:
    role: Role = "ingest-operator" if owner == OPERATOR_NAME else "ingest"
    now_ns = installation.clock.now_ns()
    return installation.keys.create(
        spellings(owner)[-1],
        "free",
        now_ns,
        role=role,
        label="outcry replay",
        expires_ns=now_ns + _LONGEST_DAYS * NANOS_PER_DAY,
    )
