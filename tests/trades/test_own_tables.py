"""Several tables are replaced as one: every reader sees all of them before or all of them after, also after a kill."""

import multiprocessing
from collections.abc import Callable
from pathlib import Path

import pytest

from outcry.base import portable_files
from outcry.market.reference_rows import BadReference
from outcry.trades import own_tables
from outcry.trades.own_tables import (
    TablesChanged,
    TablesInUse,
    finish_update,
    read_own_tables,
    replace_tables,
)

BEFORE = {"products.csv": "before\r\n", "sessions.csv": "before\n"}
AFTER = {"products.csv": "after, with ä\r\n", "sessions.csv": "after\n", "holidays.csv": "after\n"}
TOO_MANY = 100


class Killed(BaseException):
    """The process ended at this call."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    replace_tables(tmp_path, BEFORE)
    return tmp_path


def killed_at(call: int, monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """Let the `call`th change of a file, counted from 1, never happen, nor any later one. Return the counter."""
    done = [0]

    def counted(name: str) -> None:
        original = getattr(portable_files, name)

        def act(*args: Path) -> None:
            done[0] += 1
            if done[0] >= call:
                raise Killed
            original(*args)

        monkeypatch.setattr(own_tables.portable_files, name, act)

    for name in ("replace", "remove"):
        counted(name)
    return lambda: done[0]


def test_a_kill_at_any_change_leaves_all_or_nothing(folder: Path) -> None:
    """The first change that counts is the name of the update: `before` until then, `after` from then on."""
    seen: list[dict[str, str]] = []
    for call in range(1, TOO_MANY):
        with pytest.MonkeyPatch.context() as patch:
            killed_at(call, patch)
            try:
                replace_tables(folder, AFTER)
            except Killed:
                pass
            else:
                break
        seen.append(dict(read_own_tables(folder).texts))
        finish_update(folder)
        assert read_own_tables(folder).texts == seen[-1]
        files = {path.name: path.read_bytes().decode() for path in (folder / "instruments").glob("*.csv")}
        assert files == seen[-1]
        assert not (folder / "instruments" / "update.json").exists()
        for name in AFTER:
            (folder / "instruments" / name).unlink(missing_ok=True)
        replace_tables(folder, BEFORE)
    assert [each for each in seen if each not in (BEFORE, AFTER)] == []
    assert seen[0] == BEFORE
    assert seen[-1] == AFTER
    assert read_own_tables(folder).texts == AFTER


def test_a_table_that_was_edited_after_an_interruption_is_refused_until_somebody_decides(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        killed_at(3, patch)
        with pytest.raises(Killed):
            replace_tables(folder, AFTER)
    assert read_own_tables(folder).texts == AFTER
    (folder / "instruments" / "sessions.csv").write_text("by hand\n")
    with pytest.raises(BadReference, match=r"sessions\.csv.*update\.json"):
        read_own_tables(folder)
    with pytest.raises(BadReference):
        replace_tables(folder, AFTER)
    (folder / "instruments" / "update.json").unlink()
    assert read_own_tables(folder).texts == {**BEFORE, "sessions.csv": "by hand\n"}


def test_a_change_of_other_tables_is_not_lost(folder: Path) -> None:
    """Two people open the same state; the second one to save is refused, and may save after looking again."""
    opened = read_own_tables(folder).version
    replace_tables(folder, {"products.csv": "of the first\n"}, opened)
    with pytest.raises(TablesChanged):
        replace_tables(folder, {"holidays.csv": "of the second\n"}, opened)
    assert read_own_tables(folder).texts == {**BEFORE, "products.csv": "of the first\n"}
    replace_tables(folder, {"holidays.csv": "of the second\n"}, read_own_tables(folder).version)
    assert read_own_tables(folder).texts["holidays.csv"] == "of the second\n"


def test_a_change_by_hand_counts_too(folder: Path) -> None:
    opened = read_own_tables(folder).version
    (folder / "instruments" / "sessions.csv").write_text("by hand\n")
    with pytest.raises(TablesChanged):
        replace_tables(folder, AFTER, opened)


def _saves(folder: Path, number: int) -> bool:
    """Add a line to both tables until it was not lost to another process."""
    for _ in range(TOO_MANY * 10):
        own = read_own_tables(folder)
        texts = {name: f"{text}{number}\n" for name, text in own.texts.items()}
        try:
            replace_tables(folder, texts, own.version)
        except (TablesChanged, TablesInUse):
            continue
        return True
    return False


def test_processes_that_save_at_once_lose_nothing_and_readers_see_equal_tables(folder: Path) -> None:
    """Six processes add a line to both tables, while this one reads: the tables have the same lines at any time."""
    replace_tables(folder, {"products.csv": "", "sessions.csv": ""})
    with multiprocessing.get_context("spawn").Pool(3) as pool:
        waiting = pool.starmap_async(_saves, [(folder, number) for number in range(6)])
        while not waiting.ready():
            texts = read_own_tables(folder).texts
            assert texts["products.csv"] == texts["sessions.csv"]
            waiting.wait(0.001)
        assert waiting.get() == [True] * 6
    assert sorted(read_own_tables(folder).texts["products.csv"].split()) == list("012345")


@pytest.mark.parametrize("text", ["", "{", '{"other.csv": {"before": null, "text": ""}}', "[1]"])
def test_a_damaged_update_is_named(text: str, folder: Path) -> None:
    (folder / "instruments" / "update.json").write_text(text)
    with pytest.raises(BadReference, match=r"update\.json"):
        read_own_tables(folder)


def test_a_folder_that_cannot_be_written_is_read_all_the_same(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        killed_at(3, patch)
        with pytest.raises(Killed):
            replace_tables(folder, AFTER)

    def refuse(*_args: object) -> None:
        raise PermissionError

    monkeypatch.setattr(own_tables, "_write", refuse)
    finish_update(folder)
    assert read_own_tables(folder).texts == AFTER


def test_without_tables_nothing_is_written(tmp_path: Path) -> None:
    finish_update(tmp_path)
    assert read_own_tables(tmp_path).texts == {}
    assert list(tmp_path.iterdir()) == []
