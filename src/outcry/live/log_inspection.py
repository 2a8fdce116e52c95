"""Inspects a log without changing it: which files are unreadable, and where each stream ends."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from outcry.base.file_lock import is_locked
from outcry.live.log_checks import is_key
from outcry.live.log_files import LOCK, file_starts
from outcry.live.log_segments import NoFrame, next_frame, open_segment, walk
from outcry.live.model import Frame, LogDamaged


@dataclass(slots=True)
class LogInspection:
    """The result for one stream: the position after its newest entry, and a line of text for each fault."""

    key: str
    last: int = 0
    faults: list[str] = field(default_factory=list[str])


def is_in_use(folder: Path) -> bool:
    """Return whether a service writes to the log in a folder."""
    return is_locked(folder / LOCK)


def inspect_logs(folder: Path, decode: Callable[[Frame], object]) -> Iterator[LogInspection]:
    """Read every stream's log, and yield the result for each. decode: raises `LogDamaged` for an unreadable frame.

    If a service writes at the same time, files may be removed and the newest may end inside a frame. Neither counts as
    a fault then.
    """
    in_use = is_in_use(folder)
    for path in sorted(folder.glob("*/*/*/")):
        key = "/".join(path.parts[-3:])
        if is_key(key):
            yield _stream(key, path, decode, in_use=in_use)


def quarantined_files(folder: Path) -> list[Path]:
    """Return the damaged files that the service renamed at earlier starts."""
    return sorted(folder.glob("*/*/*/*.damaged*"))


def _stream(key: str, folder: Path, decode: Callable[[Frame], object], *, in_use: bool) -> LogInspection:
    seen = LogInspection(key)
    starts = file_starts(folder)
    for at, start in enumerate(starts):
        path = folder / f"{start:020d}.log"
        if at and seen.last != start and not seen.faults:
            seen.faults.append(
                f"the log {folder} lacks the entries {seen.last} to {start - 1}: {_NEXT_START}"
            )
        seen.last = start
        try:
            _read(path, seen, decode, is_torn_allowed=in_use and start == starts[-1])
        except FileNotFoundError:
            if not in_use:
                seen.faults.append(f"the log {path} is gone")
        except (LogDamaged, OSError) as problem:
            seen.faults.append(f"the log {path}: {problem}")
    return seen


_NEXT_START = "the next start goes on from the snapshot and what can be read, and keeps the damaged file"


def _read(
    path: Path, seen: LogInspection, decode: Callable[[Frame], object], *, is_torn_allowed: bool
) -> None:
    with open_segment(path) as file:
        size = path.stat().st_size
        try:
            for frame in walk(file, seen.last, size):
                decode(frame)
                seen.last = frame.first + frame.count
        except NoFrame as problem:
            file.seek(problem.at)
            rest = file.read(size - problem.at)
            if next_frame(rest, problem.expected) is None and (is_torn_allowed or not any(rest)):
                return
            seen.faults.append(
                f"the log {path} is damaged at byte {problem.at}: entry {problem.expected} cannot be read. "
                f"{_NEXT_START[0].upper()}{_NEXT_START[1:]}"
            )
