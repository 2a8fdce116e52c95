"""Rebuilds a damaged log from its readable frames. Damaged files are renamed, never removed.

New files are on disk before an old one is renamed. If entries before the position of the stream's snapshot are lost, a
frame in their place marks the loss. After that position, the log ends at the first gap.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from outcry.base.portable_files import replace, sync_folder
from outcry.base.quarantine import unused_name
from outcry.live.log_files import file_starts, paths_of
from outcry.live.log_segments import Run, encode, runs

_COPIED = 1 << 20


@dataclass(frozen=True, slots=True)
class _Piece:
    """A part of the rebuilt log: valid frames of a file or, if `path` is None, lost entries."""

    path: Path | None
    run: Run


def salvaged(folder: Path, position: int, lost: Callable[[int], bytes]) -> list[str]:
    """Rebuild a stream's log from its readable frames; return a line of text for each damaged file and gap.

    The result is empty if the log is undamaged. position: of the snapshot from which the stream continues, 0 without
    one. lost: returns the contents (blob) of a frame that stands for a number of lost entries.
    """
    files = list(zip(paths_of(folder), file_starts(folder), strict=True))
    pieces = list(
        _pieces([(path, run) for path, first in files for run in runs(path, first)], files, position)
    )
    kept = {piece.path for piece in pieces if piece.path is not None and _is_whole(piece, files)}
    end = pieces[-1].run.until if pieces else 0
    begun = files[-1][0] if files and not files[-1][0].stat().st_size and files[-1][1] == end else None
    broken = [path for path, _ in files if path not in kept and path != begun]
    if not broken and all(piece.path is not None for piece in pieces):
        return []
    drafts = [
        (_draft(folder, piece, lost), folder / f"{piece.run.first:020d}.log")
        for piece in pieces
        if piece.path not in kept
    ]
    said: list[str] = []
    for path in broken:
        aside = unused_name(path, "damaged")
        replace(path, aside)
        said.append(
            f"the log {path} is damaged: it was renamed to {aside.name}, and its readable entries are in use"
        )
    for draft, path in drafts:
        replace(draft, path)
    sync_folder(folder)
    said += [
        f"the log {folder} has lost entries {piece.run.first} to {piece.run.until - 1}"
        for piece in pieces
        if piece.path is None
    ]
    return [*said, f"the log {folder} continues from entry {end}"]


def _pieces(
    found: Sequence[tuple[Path, Run]], files: Sequence[tuple[Path, int]], position: int
) -> Iterator[_Piece]:
    at = files[0][1] if files else 0
    for path, run in found:
        if run.first > at:
            if run.first > position:
                break
            yield _Piece(None, Run(0, 0, at, run.first))
        yield _Piece(path, run)
        at = run.until
    if at < position:
        yield _Piece(None, Run(0, 0, at, position))


def _is_whole(piece: _Piece, files: Sequence[tuple[Path, int]]) -> bool:
    """Return whether a part of the rebuilt log equals one of the old files, so that the file can stay as it is."""
    assert piece.path is not None
    return (
        piece.path,
        piece.run.first,
    ) in files and piece.run.end - piece.run.start == piece.path.stat().st_size


def _draft(folder: Path, piece: _Piece, lost: Callable[[int], bytes]) -> Path:
    draft = folder / f"{piece.run.first:020d}.draft"
    with draft.open("wb") as file:
        if piece.path is None:
            count = piece.run.until - piece.run.first
            file.write(encode(piece.run.first, count, lost(count)))
        else:
            with piece.path.open("rb") as source:
                source.seek(piece.run.start)
                left = piece.run.end - piece.run.start
                while left:
                    part = source.read(min(left, _COPIED))
                    file.write(part)
                    left -= len(part)
        file.flush()
        os.fsync(file.fileno())
    return draft
