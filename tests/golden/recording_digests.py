"""Print digests of everything computed from real recordings, to compare two versions or forms of Outcry.

`python -m tests.golden.recording_digests SHARED [NAME...]` imports each recording, computes it again from the tape, and
replays it as a live feed. Versions that print the same digests have the same sessions, answers, alerts and states of
streams. SHARED: the folder with the market data. NAME: how the names of some recordings start, such as `lean/cme`.
"""

import sys
from collections.abc import Iterator
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
from tests.golden.replaying import replay

from outcry.access.licences import Grant, Scope
from outcry.app.installation import Installation, open_installation
from outcry.app.settings import Settings
from outcry.base.build_form import form
from outcry.base.errors import NoLicensedSource, UnknownSymbol
from outcry.recordings.file_model import FileRefused, ReadOptions

ALL = Scope(
    user_id=1, grants=(Grant("everyone", "completed", (), None, None), Grant("everyone", "live", (), None, None))
)  # fmt: skip
SIX_E = "6e/6EH4_1min_20240101_20240112.csv.gz"


class FixedClock:
    """A clock that always has the same time, after every recording."""

    def now_ns(self) -> int:
        """Return 2026-01-01 00:00 UTC."""
        return 1_767_225_600_000_000_000


def recordings(data: Path) -> Iterator[tuple[str, list[Path], ReadOptions]]:
    """Generate name, files and options of each recording; files in LEAN's layout are one recording a folder."""
    for folder in sorted({path.parent for path in data.glob("lean/**/*_trade.zip")}):
        yield str(folder.relative_to(data)), sorted(folder.glob("*_trade.zip")), ReadOptions()
    yield SIX_E, [data / SIX_E], ReadOptions(contract="6EH4", stamp="close", tz="UTC")
    for path in sorted(data.glob("dbn/*")):
        yield str(path.relative_to(data)), [path], ReadOptions()


def stored(installation: Installation) -> dict[str, list[object]]:
    """Return all stored sessions, alerts and states of streams, and the answers about them."""
    store, query, now_ns = installation.store, installation.query, installation.clock.now_ns()
    found: dict[str, list[object]] = {"sessions": [], "levels": [], "profiles": [], "charts": []}
    for root in installation.reference.universe.products:
        rows = store.sessions([0], root)
        found["sessions"] += map(repr, rows)
        for contract in sorted({row.contract for row in rows}):
            with suppress(NoLicensedSource, UnknownSymbol):  # no session of regular hours is over
                history = query.history(ALL, contract, None, None, now_ns).answer
                found["levels"] += [
                    history, query.levels(ALL, contract, now_ns).answer, query.context(ALL, contract, now_ns).answer,
                ]  # fmt: skip
                found["profiles"] += [
                    query.profile(ALL, contract, session.date, now_ns).answer for session in history.sessions
                ]
                found["charts"].append(query.chart(ALL, contract, None, now_ns).answer)
    return found | {
        "alerts": [repr(alert) for alert in installation.alerts.alerts(None)],
        "alert answers": [
            *query.alerts_history(ALL, None, None, None, None, None, None, now_ns).answer.alerts
        ],
        "streams": [repr(snapshot) for snapshot in installation.alerts.all_snapshots()],
    }


def digests(installation: Installation) -> str:
    """Return count and digest of each kind of result; answers are compared as sent."""
    return ", ".join(
        f"{len(results)} {kind} {sha256(msgspec.json.encode(results)).hexdigest()[:16]}"
        for kind, results in stored(installation).items()
        if results
    )


def imported(files: list[Path], options: ReadOptions) -> Iterator[str]:
    """Import files; generate the digests, and those after everything is computed again."""
    with (
        TemporaryDirectory() as folder,
        open_installation(Settings(data=folder), FixedClock()) as installation,
    ):
        now_ns = installation.clock.now_ns()
        for path in files:
            installation.importer.run(path, 0, options, now_ns)
        yield digests(installation)
        list(installation.importer.refold(now_ns))
        yield digests(installation)


def replayed(files: list[Path], options: ReadOptions) -> str:
    """Replay files as a live feed and return the digests."""
    with (
        TemporaryDirectory() as folder,
        open_installation(Settings(data=folder), FixedClock()) as installation,
    ):
        replay(installation, files, options)
        return digests(installation)


def main() -> None:
    shared, *wanted = sys.argv[1:]
    sys.stdout.write(f"{form()}\n")
    for name, files, options in recordings(Path(shared) / "data"):
        if not name.startswith(tuple(wanted or [""])):
            continue
        with suppress(FileRefused):  # bars that are too long
            ways = [replayed(files, options), *imported(files, options)]
            for way, found in zip(("replayed", "imported", "refolded"), ways, strict=True):
                if found:
                    sys.stdout.write(f"{name} {way}: {found}\n")


if __name__ == "__main__":
    main()
