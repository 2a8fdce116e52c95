"""Store the settings of profiles that users saved under names of their own, in SQLite or PostgreSQL.

A setting changes the answers to its user, so every write increments the revision of answers.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import msgspec
from sqlalchemy import Connection, RowMapping, and_, func, select, update

from outcry.database import schema
from outcry.database.database import Database, new_id
from outcry.database.lock_order import lock_user
from outcry.market.saved_setting import BadSetting, SavedSetting, is_own_name, is_reserved, setting_of

_PRESETS = schema.presets
#: Settings that a user can save.
MOST = 50

#: Why a setting is not saved: its name has another form than `saved_setting.NAME_PATTERN`, belongs to a preset or
#: platform, or to another setting of the user; or the user has `MOST`.
Refusal = Literal["form", "reserved", "taken", "full"]


class PresetRefused(Exception):
    """A setting cannot be saved or renamed. reason: see `Refusal`."""

    def __init__(self, reason: Refusal) -> None:
        super().__init__(reason)
        self.reason: Refusal = reason


@dataclass(frozen=True, slots=True)
class PresetRow:
    """A saved setting. setting: None if this version of Outcry cannot read it, because a newer one wrote it."""

    id: int
    name: str
    created_ns: int
    setting: SavedSetting | None


class SqlPresets:
    """Storage of users' own presets. Every method may raise `StoreBusy`, and sees those of one user only."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def of(self, user_id: int) -> Sequence[PresetRow]:
        """Return a user's presets, sorted by name."""
        query = select(_PRESETS).where(_PRESETS.c.user_id == user_id)
        with self._database.reading() as connection:
            found = [_row(row) for row in connection.execute(query).mappings()]
        return sorted(found, key=lambda row: row.name)  # databases sort by different rules

    def named(self, user_id: int, name: str) -> SavedSetting | None:
        """Return a user's preset by its name; None if the user has no such preset that can be used."""
        query = select(_PRESETS).where(_PRESETS.c.user_id == user_id, _PRESETS.c.name == name)
        with self._database.reading() as connection:
            row = connection.execute(query).mappings().first()
        return None if row is None else _row(row).setting

    def add(self, user_id: int, name: str, setting: SavedSetting, now_ns: int) -> int:
        """Save a setting under a name and return its id. Raises `PresetRefused`."""
        _check_name(name)
        row = {
            "user_id": user_id, "name": name, "created_ns": now_ns,
            "setting": msgspec.json.encode(setting.values()).decode(),
        }  # fmt: skip
        with self._database.write() as connection:
            lock_user(connection, user_id)
            _check_free(connection, user_id, name)
            count = select(func.count()).where(_PRESETS.c.user_id == user_id)
            if connection.execute(count).scalar_one() >= MOST:
                raise PresetRefused("full")
            return new_id(connection.execute(_PRESETS.insert().values(row)))

    def rename(self, user_id: int, preset_id: int, name: str) -> bool:
        """Rename a user's preset; return False if the user has no such preset. Raises `PresetRefused`."""
        _check_name(name)
        with self._database.write() as connection:
            lock_user(connection, user_id)
            _check_free(connection, user_id, name, but=preset_id)
            changed = update(_PRESETS).where(_own(user_id, preset_id)).values(name=name)
            return connection.execute(changed).rowcount == 1

    def delete(self, user_id: int, preset_id: int) -> bool:
        """Delete a user's preset; return False if the user has no such preset."""
        with self._database.write() as connection:
            return connection.execute(_PRESETS.delete().where(_own(user_id, preset_id))).rowcount == 1


def free_name(taken: Sequence[PresetRow], wished: str) -> str:
    """Return a name that a user has not given yet: the wished one, or it with a number."""
    names = {row.name for row in taken}
    return next(
        name for n in range(1, len(names) + 2) if (name := wished if n == 1 else f"{wished}-{n}") not in names
    )


def _own(user_id: int, preset_id: int) -> Any:
    return and_(_PRESETS.c.user_id == user_id, _PRESETS.c.id == preset_id)


def _check_name(name: str) -> None:
    if not is_own_name(name):
        raise PresetRefused("form")
    if is_reserved(name):
        raise PresetRefused("reserved")


def _check_free(connection: Connection, user_id: int, name: str, but: int = 0) -> None:
    query = select(_PRESETS.c.id).where(_PRESETS.c.user_id == user_id, _PRESETS.c.name == name)
    if connection.execute(query).scalar() not in (None, but):
        raise PresetRefused("taken")


def _row(row: RowMapping) -> PresetRow:
    try:
        setting = setting_of(row["name"], msgspec.json.decode(row["setting"], type=dict[str, str | int]))
    except (BadSetting, msgspec.DecodeError):
        setting = None
    return PresetRow(row["id"], row["name"], row["created_ns"], setting)
