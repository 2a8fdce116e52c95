"""Forgetting a file recomputes only the sessions that depend on it, with the result of computing all of them.

Sessions are compared with those of the 56 days before: in a market that usually trades every tenth minute, two hours
without a trade are no hole; after days with a trade in every minute they are (`test_completeness`).
"""

from collections.abc import Iterator, Sequence
from datetime import date, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.installations import write_zip
from tests.recordings.test_forgetting import digests, files_on_tape
from tests.sessions.test_damaged_data import sql

from outcry.app.installation import Installation, open_installation
from outcry.app.settings import Settings
from outcry.recordings.file_model import ReadOptions
from outcry.recordings.tape import TapeFolder

SECOND = 1_000_000_000
NOW = 1_727_000_000 * SECOND  # 2024-09-22, when all days are over
#: Minutes between two trades, and the first and last minute (from the open) of a time without trades.
DENSE, SPARSE, SPARSE_WITH_GAP, DENSE_WITH_GAP, HOURLY = (
    (1, 0, 0),
    (10, 0, 0),
    (10, 100, 220),
    (1, 60, 90),
    (60, 0, 0),
)
PATTERNS = (DENSE, SPARSE, SPARSE_WITH_GAP, DENSE_WITH_GAP, HOURLY)
#: Tuesdays and Wednesdays over 70 days, so that the first are no longer recent for the last.
DAYS = [date(2024, 7, 2) + timedelta(days=7 * week + day) for week in range(11) for day in range(2)]


def minutes(pattern: tuple[int, int, int]) -> Iterator[int]:
    """Yield the minutes with a trade, from the open at 13:30 UTC to the close at 20:15."""
    every, first, last = pattern
    return (minute for minute in range(0, 405, every) if not first <= minute < last)


def write(
    folder: Path, name: str, day: date, pattern: tuple[int, int, int], month: str, *, ticks: bool
) -> Path:
    """Write a file of one regular session of ES, with minute bars or trades. Sizes depend on the number in its name."""
    rows: list[str] = []
    for minute in minutes(pattern):
        ms, price, size = (13 * 60 + 30 + minute) * 60_000, 5500 + minute % 7, int(name[1:]) + minute % 3 + 1
        rows.append(
            f"{ms + 500},{price},{size},cme,,0" if ticks else f"{ms},{price},{price},{price},{price},{size}"
        )
    form = "tick" if ticks else "minute"
    return write_zip(
        folder / name, f"{name}_{day:%Y%m%d}_trade.zip", f"{day:%Y%m%d}_es_{form}_trade_{month}.csv", rows
    )


class Folder:
    """A data folder whose clock is a second later at each import."""

    def __init__(self, installation: Installation) -> None:
        self.installation, self.now_ns = installation, NOW

    def take(self, paths: Sequence[Path]) -> None:
        for path in paths:
            self.now_ns += SECOND
            self.installation.importer.run(path, 0, ReadOptions(), self.now_ns)

    def forget(self, *paths: Path) -> None:
        self.now_ns += SECOND
        self.installation.importer.forget([str(path) for path in paths], 0, self.now_ns)

    def refold(self) -> None:
        self.now_ns += SECOND
        list(self.installation.importer.refold(self.now_ns))

    def complete(self) -> dict[date, bool]:
        return {row.trade_date: row.complete for row in self.installation.store.sessions([0], "ES")}


@settings(max_examples=20)
@given(data=st.data())
def test_the_result_is_that_of_computing_everything(data: st.DataObject) -> None:
    """Import random files in random order, and forget some. A refold of everything then changes nothing.

    The result also equals that of a folder that never imported the forgotten files, and is refolded.
    """
    chosen = data.draw(
        st.lists(
            st.tuples(
                st.sampled_from(DAYS), st.sampled_from(PATTERNS), st.sampled_from(("202409", "202412")), st.booleans()
            ),
            min_size=2, max_size=10,
        )
    )  # fmt: skip
    with TemporaryDirectory() as name, open_installation(Settings(data=name + "/data")) as installation:
        folder = Folder(installation)
        every = [
            write(Path(name), f"f{number}", day, pattern, month, ticks=ticks)
            for number, (day, pattern, month, ticks) in enumerate(chosen)
        ]
        known: list[Path] = []
        for path in every:
            folder.take([path])
            known.append(path)
            if data.draw(st.integers(0, 9)) == 0:
                folder.refold()
        for _ in range(data.draw(st.integers(1, 2))):
            gone = data.draw(st.lists(st.sampled_from(known), max_size=2, unique=True)) if known else []
            folder.forget(*gone)
            known = [path for path in known if path not in gone]
        found = digests(installation)
        assert files_on_tape(installation) == installation.store.tape_paths()
        with open_installation(Settings(data=name + "/other")) as never:
            other = Folder(never)
            other.take(known)
            other.refold()
            assert found == digests(never)
        folder.refold()
        assert found == digests(installation)


def test_later_sessions_are_compared_again_with_what_is_left(
    installation: Installation, tmp_path: Path
) -> None:
    """Two hours without trades are usual after nine sparse sessions, but not after nine dense ones.

    With nine sparse sessions p is about 0.1, so a hole begins after 142 minutes; a gap has 120 minutes. Without them
    the default of ES counts: p is 0.15 × 0.95, and a hole begins after 98 minutes.
    """
    folder = Folder(installation)
    sparse = [write(tmp_path, f"s{n}", day, SPARSE, "202409", ticks=False) for n, day in enumerate(DAYS[:9])]
    gap = [
        write(tmp_path, f"g{n}", day, SPARSE_WITH_GAP, "202409", ticks=False)
        for n, day in enumerate(DAYS[9:11])
    ]
    folder.take([*sparse, *gap])
    assert all(folder.complete().values())
    folder.forget(*sparse)
    assert folder.complete() == dict.fromkeys(DAYS[9:11], False)


def tape_reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list to which each tape file is added when it is read or verified."""
    found: list[str] = []
    digest = TapeFolder.digest

    def noting(self: TapeFolder, relative: str) -> str:
        found.append(relative)
        return digest(self, relative)

    monkeypatch.setattr(TapeFolder, "digest", noting)
    return found


def test_only_dependent_sessions_are_read_from_the_tape(
    installation: Installation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sessions with a trade in every minute are complete in any case, and older sessions depend on no later ones."""
    folder = Folder(installation)
    dense = [write(tmp_path, f"d{n}", day, DENSE, "202409", ticks=False) for n, day in enumerate(DAYS[:-1])]
    sparse = write(tmp_path, "s0", DAYS[-1], SPARSE, "202409", ticks=False)
    folder.take([*dense, sparse])
    of_last = {row.path for row in installation.store.all_recordings() if row.trade_date == DAYS[-1]}
    before = digests(installation)
    reads = tape_reads(monkeypatch)
    folder.forget(dense[0])  # 70 days before the sparse one: not recent
    assert reads == []
    folder.forget(dense[-2])
    assert set(reads) == of_last
    reads.clear()
    folder.take([dense[-2], dense[0]])
    reads.clear()
    folder.forget(dense[-2], dense[0])
    monkeypatch.undo()
    found = digests(installation)
    assert {key for key in found if key.startswith("session")} < before.keys()
    folder.refold()
    assert digests(installation) == found


def test_a_session_stored_before_an_earlier_one_is_computed_again(
    installation: Installation, tmp_path: Path
) -> None:
    """The sparse session with a gap was imported before the sparse sessions that explain it."""
    folder = Folder(installation)
    first = write(tmp_path, "d0", DAYS[0], DENSE, "202409", ticks=False)
    gap = write(tmp_path, "g0", DAYS[10], SPARSE_WITH_GAP, "202409", ticks=False)
    sparse = [
        write(tmp_path, f"s{n}", day, SPARSE, "202409", ticks=False) for n, day in enumerate(DAYS[1:10])
    ]
    folder.take([first, gap, *sparse])
    assert not folder.complete()[DAYS[10]]
    folder.forget(first)
    assert folder.complete()[DAYS[10]]


def test_everything_is_computed_if_a_stored_session_is_damaged(
    installation: Installation, tmp_path: Path
) -> None:
    folder = Folder(installation)
    paths = [write(tmp_path, f"d{n}", day, DENSE, "202409", ticks=False) for n, day in enumerate(DAYS[:3])]
    folder.take(paths)
    expected = {key: value for key, value in digests(installation).items() if key.startswith("session")}
    sql(installation, f"UPDATE sessions SET volume = volume + 1 WHERE trade_date = '{DAYS[1]}'")
    sql(installation, "UPDATE revision SET n = n + 1")
    assert len(installation.store.damaged()) == 1
    folder.forget(paths[2])
    assert installation.store.damaged() == []
    found = {key: value for key, value in digests(installation).items() if key.startswith("session")}
    assert found.items() < expected.items()
    assert len(found) == 2
