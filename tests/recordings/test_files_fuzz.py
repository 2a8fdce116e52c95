"""Sample files with flipped, cut, doubled or inserted bytes yield rows or one refusal, and nothing else."""

import random
from pathlib import Path

import numpy as np
import pytest

from outcry.market.instruments import Universe
from outcry.recordings.file_model import FileRefused, ReadOptions
from outcry.recordings.formats.file_library import FileLibrary

SAMPLES = ("dbn/*", "lean/*/*/*/2013100[67]_*.zip", "6e/*")
EACH = 60


def attempt(path: Path, universe: Universe) -> None:
    message = ""
    try:
        reading = FileLibrary().open(path, universe, ReadOptions(stamp="open", tz="UTC"))
        if reading is not None:
            for batch in reading.batches():
                assert np.result_type(batch.rows) == batch.quality.dtype  # without gaps between the fields
    except FileRefused as refusal:
        message = str(refusal)
    assert not message or str(path) in message


def damage(data: bytes, chance: random.Random) -> bytes:
    kind, at = chance.randrange(5), chance.randrange(len(data))
    if kind == 0:
        return data[:at]
    if kind == 1:
        return data[:at] + bytes((chance.randrange(256),)) + data[at + 1 :]
    if kind == 2:
        return data[:at] + chance.choice((b"\0" * 8, b"\xff" * 8, b",", b"\n", b"PK\x05\x06")) + data[at:]
    if kind == 3:
        return data[:at] + b"\xff\xff\xff\xff" + data[at + 4 :]
    return data[:at] + data[at // 2 :]


def samples(shared: Path) -> list[Path]:
    return sorted(path for pattern in SAMPLES for path in (shared / "data").glob(pattern) if path.is_file())


def made(folder: Path, universe: Universe) -> list[Path]:
    """Create small files of the formats without public samples."""
    from tests.recordings import sample_files

    return sample_files.all_kinds(folder)


@pytest.mark.parametrize("seed", range(4))
def test_a_damaged_file_gives_rows_or_one_refusal(
    shared: Path, tmp_path: Path, universe: Universe, seed: int
) -> None:
    chance = random.Random(seed)
    sources = samples(shared) + made(tmp_path, universe)
    assert len(sources) > 50
    for source in sources:
        data = source.read_bytes()
        target = tmp_path / f"damaged_{source.name}"
        for _ in range(EACH // 4):
            damaged = damage(data, chance)
            if not damaged:
                continue
            target.write_bytes(damaged)
            attempt(target, universe)
        target.unlink(missing_ok=True)
