"""Forgetting a file leaves what a folder that never imported it would have, in any order and after any interruption."""

import hashlib
import itertools
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.installations import ms_of_day, write_zip
from tests.recordings.test_importing import DAY, WHOLE, Write, everything, rth, take
from tests.sessions.test_damaged_data import NEXT_DAY, flip, sql, tape_of

from outcry.app.installation import Installation, open_installation
from outcry.app.settings import Settings
from outcry.recordings import affected_sessions, tape_changes
from outcry.recordings.file_model import ReadOptions
from outcry.recordings.forgetting import CannotForget
from outcry.recordings.import_choice import UnknownImport, import_id
from outcry.recordings.tape import TapeFolder
from outcry.recordings.tape_errors import TapeDamaged
from outcry.sessions.store_model import RecordingRow

NOW = 1_720_300_000_000_000_000  # 2024-07-06, when both days are over


def digests(installation: Installation) -> dict[str, str]:
    """Return a digest of everything stored: recordings with their rows, sessions, imports with their rows."""
    store, found = installation.store, dict[str, str]()

    def rows_of(path: str, row: RecordingRow) -> str:
        file = row.file._replace(path=path, digest="")
        return hashlib.sha256(
            np.concatenate(list(installation.tape.read(file, row.quality))).tobytes()
        ).hexdigest()

    for row in store.all_recordings():
        values = {
            name: value
            for name, value in asdict(row).items()
            if name not in ("path", "digest", "received_ns")
        }
        found[f"recording {row.id}"] = repr((values, rows_of(row.path, row)))
        for one in store.contributions(row.owner, row.contract, row.trade_date, row.trade_date):
            if one.recording == row.id and one.path:
                found[f"rows {row.id} {one.digest}"] = repr(
                    (one.rows, one.spans, one.set_aside, rows_of(one.file.path, row))
                )
    for session in store.all_sessions():
        found[f"session {session.contract} {session.open_ns}"] = repr(asdict(session) | {"received_ns": 0})
    for done in store.imports(0):
        found[f"import {done.digest}"] = done.name
    return found


def forget(installation: Installation, *named: str) -> None:
    installation.importer.forget(named, 0, NOW)


def files_on_tape(installation: Installation) -> set[str]:
    return {
        path.relative_to(tape_of(installation)).as_posix() for path in tape_of(installation).rglob("*.zst")
    }


def files(folder: Path) -> Sequence[Path]:
    """Write files that overlap in every way: parts, repeats, bars and ticks, off-tick and late rows, a second day."""

    def ticks(name: str, day: str, lines: Sequence[tuple[str, str, int]]) -> Path:
        rows = [f"{ms_of_day(at)},{price},{size},cme,,0" for at, price, size in lines]
        return write_zip(folder / name, f"{name}_{day}_trade.zip", f"{day}_es_tick_trade_202409.csv", rows)

    def bars(name: str, day: str, lines: Sequence[tuple[str, str, int]]) -> Path:
        rows = [f"{ms_of_day(at[:5])},{price},{price},{price},{price},{size}" for at, price, size in lines]
        return write_zip(folder / name, f"{name}_{day}_trade.zip", f"{day}_es_minute_trade_202409.csv", rows)

    off = ("15:00:00", "5500.10", 7)
    return [
        ticks("first", DAY, [*WHOLE[:10], off]),
        ticks("rest", DAY, [*WHOLE[6:], WHOLE[9]]),
        ticks("late", DAY, [WHOLE[8], *WHOLE[2:5], *WHOLE[2:5], off, off]),
        ticks("whole", DAY, WHOLE),
        bars("bars", DAY, WHOLE[2:]),
        bars("formed", DAY, [(at, price, size + 1) for at, price, size in WHOLE[3:9]]),
        ticks("next", NEXT_DAY, WHOLE),
    ]


def import_in(installation: Installation, paths: Sequence[Path]) -> None:
    for path in paths:
        installation.importer.run(path, 0, ReadOptions(), NOW)


@settings(max_examples=25)
@given(order=st.permutations(range(7)), forgotten=st.data())
def test_a_forgotten_file_leaves_nothing_behind(order: list[int], forgotten: st.DataObject) -> None:
    """Import some of the files in any order, forgetting some of them in between.

    The result equals importing only the others, in their order, and recomputing the sessions.
    """
    with TemporaryDirectory() as folder:
        every = files(Path(folder))
        with open_installation(Settings(data=folder + "/data")) as installation:
            known: list[Path] = []
            for number in order[: forgotten.draw(st.integers(1, 7))]:
                import_in(installation, [every[number]])
                known.append(every[number])
                if forgotten.draw(st.booleans()):
                    gone = forgotten.draw(
                        st.lists(st.sampled_from(known), min_size=1, max_size=2, unique=True)
                    )
                    forget(installation, *map(str, gone))
                    known = [path for path in known if path not in gone]
            list(installation.importer.refold(NOW))
            found = digests(installation)
            assert files_on_tape(installation) == installation.store.tape_paths()
        with open_installation(Settings(data=folder + "/other")) as other:
            import_in(other, known)
            list(other.importer.refold(NOW))
            assert found == digests(other)


def test_without_changes_of_the_order_no_refold_is_needed(installation: Installation, tmp_path: Path) -> None:
    """The other files of the same day answer again at once, with the same sessions as before the import."""
    every = files(tmp_path)
    import_in(installation, every[:2])
    before = digests(installation)
    import_in(installation, every[3:4])
    assert digests(installation) != before
    forget(installation, str(every[3]))
    assert digests(installation) == before


def test_the_better_source_answers_until_it_is_forgotten(
    installation: Installation, ticks: Write, bars: Write
) -> None:
    minutes = [(at[:5], price, price, price, price, size) for at, price, size in WHOLE[2:]]
    take(installation, bars(DAY, *minutes, folder="bars"))
    of_bars = rth(installation).profile
    path = ticks(DAY, *WHOLE, folder="ticks")
    take(installation, path)
    assert rth(installation).quality == "ticks"
    revision = installation.store.revision()
    forget(installation, import_id(installation.store.imports(0)[-1]))
    assert (rth(installation).quality, rth(installation).profile) == ("bars_1m", of_bars)
    assert installation.store.revision() > revision  # so that services read their sessions again


def test_a_dry_run_reports_and_changes_nothing(installation: Installation, tmp_path: Path) -> None:
    every = files(tmp_path)
    import_in(installation, every[:2])
    before = everything(installation)
    chosen, lost = installation.importer.forget([every[0].name], 0, NOW, dry_run=True)
    assert [row.name for row in chosen] == [every[0].name]
    assert {(one.removed, one.left) for one in lost} == {
        (6, 13)
    }  # of nineteen rows, the second file has thirteen
    assert everything(installation) == before
    assert forget(installation, every[0].name) is None
    assert [row.rows for row in installation.store.all_recordings()] == [13]


def test_an_ambiguous_or_unknown_name_is_refused_with_the_candidates(
    installation: Installation, ticks: Write
) -> None:
    path = ticks(DAY, *WHOLE, folder="a")
    take(installation, path)
    installation.importer.run(path, 0, ReadOptions(contract="ESU2024"), NOW)
    before = digests(installation)
    ids = [import_id(row) for row in installation.store.imports(0)]
    for name in (str(path), path.name, installation.store.imports(0)[0].file.sha256[:8]):
        with pytest.raises(UnknownImport) as refused:
            forget(installation, name)
        assert all(one in str(refused.value) for one in ids)
    for name in ("other.zip", "ffffff", "", "."):
        with pytest.raises(UnknownImport, match="outcry import --list"):
            forget(installation, name)
    assert digests(installation) == before
    forget(installation, *ids)
    assert digests(installation) == {}
    assert files_on_tape(installation) == set()


def test_a_path_never_means_another_file_of_the_same_name(installation: Installation, ticks: Write) -> None:
    first, second = ticks(DAY, *WHOLE, folder="a"), ticks(DAY, *WHOLE[:5], folder="b")
    take(installation, first)
    take(installation, second)
    forget(installation, str(first))
    before = digests(installation)
    with pytest.raises(UnknownImport, match=import_id(installation.store.imports(0)[0])):
        forget(installation, str(first))
    assert digests(installation) == before


def test_an_error_at_any_write_changes_nothing_or_everything(
    installation: Installation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process ends at the n-th of: a write to the tape, the transaction, the removal of old files."""
    every = files(tmp_path)
    import_in(installation, every[:3])
    before = digests(installation)
    with open_installation(Settings(data=str(tmp_path / "other"))) as other:
        import_in(other, every[1:3])
        list(other.importer.refold(NOW))
        after = digests(other)

    def forget_until(stop: int) -> bool:
        """Forget the first file, but end at a step. Return whether there was such a step."""
        steps = itertools.count(1)

        def ending(run: Callable[..., object]) -> Callable[..., object]:
            def step(*args: object, **named: object) -> object:
                if next(steps) == stop:
                    raise KeyboardInterrupt
                return run(*args, **named)

            return step

        with monkeypatch.context() as patched:
            changes = type(installation.tape.changes)
            for of, name in (
                (TapeFolder, "begin"), (TapeFolder, "remove"), (type(installation.store), "forget_imports"),
                (changes, "note"), (changes, "sweep"), (affected_sessions, "fold_recordings"), (tape_changes, "remove"),
            ):  # fmt: skip
                patched.setattr(of, name, ending(getattr(of, name)))
            try:
                forget(installation, str(every[0]))
            except KeyboardInterrupt:
                return True
        return False

    stop = 1
    while forget_until(stop):
        found = digests(installation)
        assert found in (before, after), stop
        if found == after:
            break
        stop += 1
    assert stop > 4
    list(installation.importer.refold(NOW))  # the next change removes the files that nothing names
    assert digests(installation) == after
    assert files_on_tape(installation) == installation.store.tape_paths()


def test_damage_of_other_rows_is_named_before_anything_changes(
    installation: Installation, tmp_path: Path
) -> None:
    every = files(tmp_path)
    import_in(installation, every[:2])
    before = digests(installation)
    rest = next(row for row in installation.store.imports(0) if row.name == every[1].name)
    (one,) = installation.store.contributions_of(0, rest.digest)
    path = tape_of(installation) / one.file.path
    whole = path.read_bytes()
    flip(path, 50)
    with pytest.raises(TapeDamaged, match=path.name):
        forget(installation, str(every[0]))
    path.write_bytes(whole)
    assert digests(installation) == before


def test_damage_of_the_forgotten_rows_does_not_matter(installation: Installation, ticks: Write) -> None:
    path = ticks(DAY, *WHOLE)
    take(installation, path)
    row = next(iter(installation.store.all_recordings()))
    flip(tape_of(installation) / row.path, 50)
    forget(installation, str(path))
    assert digests(installation) == {}


def test_rows_of_an_earlier_version_are_forgotten_only_together(
    installation: Installation, tmp_path: Path
) -> None:
    """The earlier version stored the rows of both files in one tape file. A third file is imported by this version."""
    every = files(tmp_path)
    import_in(installation, every[:2])
    sql(
        installation,
        "UPDATE import_recordings SET path = NULL, file_digest = '', rows = 0, spans = '[]', set_aside = '[]'",
    )
    sql(installation, "UPDATE imports SET sha256 = '', bytes = NULL, rows = NULL, read_as = NULL")
    sql(installation, "UPDATE revision SET n = n + 1")
    import_in(installation, every[2:3])
    with_three = digests(installation)
    with pytest.raises(CannotForget, match=every[1].name):
        forget(installation, every[0].name)
    assert digests(installation) == with_three
    forget(installation, every[0].name, every[1].name)
    with open_installation(Settings(data=str(tmp_path / "other"))) as other:
        import_in(other, every[2:3])
        list(other.importer.refold(NOW))
        assert digests(installation) == digests(other)
