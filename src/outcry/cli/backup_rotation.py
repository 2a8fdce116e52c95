"""Dated backups in one folder, of which only the newest are retained.

Each backup is a folder such as `outcry-20261123T031500Z`. A manifest in it names the installation and lists all files
with their sizes. An old backup is deleted only if its manifest is of the same installation, and if the folder contains
exactly the listed files: never if someone added or changed a file, or runs a service on the backup.
"""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from outcry.app.secret import SECRET_FILE, derived
from outcry.app.settings import Settings
from outcry.base.portable_files import remove, sync_folder
from outcry.market.units import NANOS_PER_SECOND

MANIFEST = "backup.json"
LOCK = ".backup.lock"
_NAME = re.compile(r"outcry-[0-9]{8}T[0-9]{6}Z", re.ASCII)
_PARTIAL = ".partial"
#: File names in an error message.
_MOST_NAMED = 3


class Manifest(msgspec.Struct):
    """What `outcry backup` wrote into a folder, and when. files: sizes in bytes by path, with `/` between folders."""

    installation: str
    at_ns: int
    files: dict[str, int]


@dataclass(slots=True)
class Rotation:
    """What became of older backups: those deleted, and a line of text for each that a person must look at."""

    deleted: list[Path] = field(default_factory=list[Path])
    doubts: list[str] = field(default_factory=list[str])


def installation_id(settings: Settings) -> str:
    """Return an id of the installation: a hash of its secret and its data folder."""
    path = settings.folder / SECRET_FILE
    secret = settings.secret.encode() or (path.read_bytes().strip() if path.is_file() else b"")
    return derived(secret[:64], f"backup of {settings.folder.resolve()}").hex()


def new_backup(parent: Path, now_ns: int) -> tuple[Path, Path]:
    """Return unused paths of a backup: one to write it to, and one to rename it to when it is complete."""
    at_s = now_ns // NANOS_PER_SECOND
    while True:
        name = f"outcry-{datetime.fromtimestamp(at_s, UTC):%Y%m%dT%H%M%SZ}"
        partial, final = parent / f".{name}{_PARTIAL}", parent / name
        if not partial.exists() and not final.exists():
            return partial, final
        at_s += 1


def complete(partial: Path, final: Path, installation: str, now_ns: int) -> None:
    """Write the manifest of a backup, sync everything to disk, and rename it to its final path."""
    files = {name: path.stat().st_size for name, path in _files(partial).items()}
    manifest = Manifest(installation, now_ns, files)
    (partial / MANIFEST).write_bytes(msgspec.json.format(msgspec.json.encode(manifest)))
    for path in _files(partial).values():
        with path.open("r+b") as file:  # Windows syncs only files that are open for writing
            os.fsync(file.fileno())
    partial.rename(final)
    sync_folder(final.parent)


def rotate(parent: Path, keep: int, newest: Path, installation: str) -> Rotation:
    """Delete all but the newest `keep` backups of an installation. `newest` is never deleted.

    Folders with other names and backups of other installations are ignored. Raises `OSError` for `parent`.
    """
    done, own = Rotation(), list[tuple[int, Path]]()
    for folder in sorted(parent.iterdir()):
        if folder.name.startswith(".outcry-") and folder.name.endswith(_PARTIAL):
            done.doubts.append(
                f"{folder} was left by an interrupted run and is incomplete. Delete it by hand."
            )
        if folder == newest or not _NAME.fullmatch(folder.name) or folder.is_symlink() or not folder.is_dir():
            continue
        manifest = _manifest(folder)
        if manifest is None:
            done.doubts.append(f"{folder} was not deleted: {MANIFEST} is missing or invalid. {_BY_HAND}")
        elif manifest.installation == installation:
            own.append((manifest.at_ns, folder))
    own.sort(reverse=True)
    for _, folder in own[keep - 1 :]:
        if changed := list(_changed(folder)):
            named = ", ".join(changed[:_MOST_NAMED]) + (", …" if len(changed) > _MOST_NAMED else "")
            done.doubts.append(f"{folder} was not deleted: it changed since the backup ({named}). {_BY_HAND}")
            continue
        try:
            _delete(folder)
        except OSError as problem:
            done.doubts.append(f"{folder} could not be deleted completely: {problem}")
        else:
            done.deleted.append(folder)
    return done


_BY_HAND = "Move it elsewhere, or delete it by hand."


def _manifest(folder: Path) -> Manifest | None:
    try:
        return msgspec.json.decode((folder / MANIFEST).read_bytes(), type=Manifest)
    except (OSError, ValueError):
        return None


def _changed(folder: Path) -> Iterator[str]:
    """Yield the files of a backup that are not as its manifest lists them, and those that are missing."""
    manifest, found = _manifest(folder), _files(folder)
    listed = manifest.files if manifest else {}
    for name, path in found.items():
        if name != MANIFEST and (path.is_symlink() or path.stat().st_size != listed.get(name)):
            yield name
    yield from listed.keys() - found.keys()


def _files(folder: Path) -> dict[str, Path]:
    """Return everything in a folder that is not a folder, by its path with `/`."""
    found: dict[str, Path] = {}
    for place, folders, names in os.walk(folder):
        links = [name for name in folders if Path(place, name).is_symlink()]
        for path in (Path(place, name) for name in (*names, *links)):
            found[path.relative_to(folder).as_posix()] = path
    return found


def _delete(folder: Path) -> None:
    """Delete the files of a backup, then its folders, which must be empty by then.

    The folder is renamed first, so that an interruption leaves nothing that looks like a complete backup.
    """
    rest = folder.rename(folder.with_name(f".{folder.name}{_PARTIAL}"))
    for path in _files(rest).values():
        remove(path)
    for place, _, _ in os.walk(rest, topdown=False):
        Path(place).rmdir()
