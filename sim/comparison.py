"""Results of a simulation, compared with the same recordings folded in one undisturbed process.

Both sides are read from the stored alerts, sessions and tape. Values that depend on timing are excluded: user ids, the
order of commits and the time of receipt.
"""

import asyncio
import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
from sim.market import PushedRecording

from outcry.access.licences import OPERATOR
from outcry.app.installation import Installation, open_installation
from outcry.app.live import live_engine
from outcry.app.settings import read_settings
from outcry.feeds.replay_pacing import FreePacer
from outcry.recordings.formats.scid import SOURCE
from outcry.sessions.store_model import RecordingRow


@dataclass
class Outcome:
    """Alerts, sessions and tape of every stream, by comparison key; for the reference also the answers."""

    alerts: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    sessions: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    tape: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))

    def keys(self, owner: str) -> list[str]:
        """Return the keys of an owner's alerts."""
        return [
            json.loads(line)["key"]
            for name, lines in self.alerts.items() if name.startswith(f"{owner}/")
            for line in lines
        ]  # fmt: skip

    def faults(self, expected: "Outcome") -> Iterator[str]:
        """Return the differences from the expected outcome, one line each."""
        for what in ("alerts", "sessions", "tape"):
            found, wanted = getattr(self, what), getattr(expected, what)
            for name in sorted(found.keys() | wanted.keys()):
                if f"/{SOURCE}/" in name:  # a growing file, which is compared while it runs
                    continue
                yield from _differences(f"{what} of {name}", found.get(name, []), wanted.get(name, []))


def _of_its_day(installation: Installation, row: RecordingRow) -> tuple[tuple[int, int], ...]:
    """Return the part of a recording that lies within its trade date.

    Its end beyond the trade date depends on when it was stored.
    """
    root = installation.reference.universe.contract(row.contract).root
    days = installation.reference.calendar.trade_dates(root, row.first_ns, row.last_ns + 1)
    (day,) = (day for day in days if day.trade_date == row.trade_date)
    return tuple((first, min(last, day.close_ns)) for first, last in row.spans if first < day.close_ns)


def _differences(what: str, found: Sequence[str], wanted: Sequence[str]) -> Iterator[str]:
    doubled = sorted({one for one in found if found.count(one) > 1})
    for reported, lines in (
        ("missing", set(wanted) - set(found)),
        ("too many", set(found) - set(wanted)),
        ("twice", doubled),
    ):
        if lines:
            yield f"{what}: {len(lines)} {reported}, of {len(wanted)}: {min(lines)[:300]}"


def read_outcome(installation: Installation, owners: Mapping[str, int]) -> Outcome:
    """Return the stored results of these owners, by email address. Reads the store."""
    names = {number: name for name, number in owners.items()}
    found = Outcome()
    for row in installation.alerts.alerts(list(names), limit=10**6):
        plain = replace(row, owner=0, seq=0, recorded_ns=None)
        found.alerts[f"{names[row.owner]}/{row.feed}/{row.contract}"].append(_line(plain))
    for row in installation.store.all_recordings():
        if row.owner not in names or row.source == SOURCE:
            continue
        rows = b"".join(part.tobytes() for part in installation.tape.read(row.file, row.quality))
        plain = replace(row, owner=0, received_ns=0, path="", spans=_of_its_day(installation, row))
        found.tape[f"{names[row.owner]}/{row.contract}"].append(f"{_line(plain)} {_digest(rows)}")
    for number, name in names.items():
        for root in installation.reference.universe.products:
            for row in installation.store.sessions([number], root):
                if row.source not in {SOURCE, "past"}:
                    found.sessions[f"{name}/{row.contract}"].append(
                        _line(replace(row, owner=0, received_ns=0))
                    )
    return found


def _line(row: Any) -> str:
    return msgspec.json.encode(row, enc_hook=str, order="sorted").decode()


def _digest(data: bytes) -> str:
    return sha256(data).hexdigest()[:16]


def undisturbed_outcome(
    folder: Path, recordings: Sequence[PushedRecording], days: Sequence[date]
) -> tuple[Outcome, dict[tuple[str, str, str], Any]]:
    """Fold recordings in one process into a new folder, round after round.

    Returns the results, and the answers of `/api/profile` by owner, contract and date.
    """
    with (
        open_installation(read_settings({}, data=str(folder))) as installation,
        installation.log.exclusively(),
    ):
        now_ns = installation.clock.now_ns()
        owners = {
            recording.owner: OPERATOR
            if recording.owner == "operator"
            else installation.store.ensure_user(recording.owner, now_ns)
            for recording in recordings
        }
        asyncio.run(_replay(installation, recordings, days, owners))
        return read_outcome(installation, owners), _profiles(installation, recordings, days, owners)


async def _replay(
    installation: Installation,
    recordings: Sequence[PushedRecording],
    days: Sequence[date],
    owners: Mapping[str, int],
) -> None:
    engine = live_engine(installation)
    reported: list[str] = []

    def report(event: str, **details: object) -> None:
        reported.append(f"{event} {details}")

    engine.report = report
    await engine.start()
    for feed in dict.fromkeys(recording.feed for recording in recordings):
        await asyncio.gather(
            *(
                engine.attach(owners[recording.owner], recording.replay(installation.reference, days, FreePacer()))
                for recording in recordings if recording.feed == feed
            )
        )  # fmt: skip
    await engine.drained()
    await engine.stop()
    if reported:
        raise RuntimeError(f"the undisturbed process complains: {reported[:3]}")


def _profiles(
    installation: Installation,
    recordings: Sequence[PushedRecording],
    days: Sequence[date],
    owners: Mapping[str, int],
) -> dict[tuple[str, str, str], Any]:
    found: dict[tuple[str, str, str], Any] = {}
    for recording in recordings:
        if recording.owner == "operator":
            continue
        scope = installation.licences.of_user(owners[recording.owner])
        for contract in recording.contracts(installation.reference, days):
            for day in map(str, days):
                answer = installation.query.profile(
                    scope, contract.key, day, installation.clock.now_ns()
                ).answer
                found[recording.owner, contract.key, day] = msgspec.json.decode(msgspec.json.encode(answer))
    return found
