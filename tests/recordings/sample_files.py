"""Small hand-written files of formats without public samples."""

import struct
import zipfile
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

#: 2024-01-02 14:30:00 UTC, the regular open in New York.
OPENING = int(datetime(2024, 1, 2, 14, 30, tzinfo=UTC).timestamp())
SIERRA_EPOCH_US = 2_209_161_600_000_000
FIRST_PART, LAST_PART = -1.99900095e37, -1.99900197e37

DATABENTO_TRADES = """\
ts_recv,ts_event,rtype,publisher_id,instrument_id,action,side,depth,price,size,flags,ts_in_delta,sequence,symbol
1704205800000100000,1704205800000000001,0,1,118,T,B,0,4755250000000,2,0,1000,7,ESH4
1704205800000200000,1704205800000000002,0,1,118,T,A,0,4755000000000,1,0,1000,8,ESH4
"""
KIBOT_BARS = "01/02/2024,09:30,4755.25,4756,4755,4755.5,100\n01/02/2024,09:31,4755.5,4757,4755.5,4756.75,80\n"
KIBOT_TICKS = "01/02/2024,09:30:00,4755.25,4755,4755.25,3\n01/02/2024,09:30:00,4755.25,4755,4755.25,3\n"
FIRSTRATE = (
    "2024-01-02 09:30:00,4755.25,4756,4755,4755.5,100\n2024-01-02 09:31:00,4755.5,4757,4755.5,4756.75,80\n"
)
NINJA_BARS = "20240102 143100;4755.25;4756;4755;4755.5;100\n20240102 143200;4755.5;4757;4755.5;4756.75;80\n"
NINJA_TICKS = "20240102 143000 1230000;4755.25;4755;4755.25;3\n20240102 143001 0000000;4755;4755;4755.25;1\n"
TRADINGVIEW = f"""\
time,open,high,low,close,Volume
{OPENING},4755.25,4756,4755,4755.5,100
{OPENING + 60},4755.5,4757,4755.5,4756.75,80
"""
GENERIC = """\
timestamp_utc,open,high,low,close,volume
2024-01-02 14:30:00,4755.25,4756,4755,4755.5,100
2024-01-02 14:31:00,4755.5,4757,4755.5,4756.75,80
"""


def scid_record(
    at_us: int, prices: tuple[float, float, float, float], counts: tuple[int, int, int, int]
) -> bytes:
    return struct.pack("<qffffIIII", at_us + SIERRA_EPOCH_US, *prices, *counts)


def scid(*records: bytes, record_size: int = 40, header_size: int = 56) -> bytes:
    return struct.pack("<4sIIHHI36s", b"SCID", header_size, record_size, 1, 0, 0, b"") + b"".join(records)


def scid_ticks(prices: list[float], start_us: int = OPENING * 1_000_000) -> bytes:
    """Return one tick per second, of 1 lot, bought."""
    return scid(
        *(scid_record(start_us + i * 1_000_000, (0.0, p, p, p), (1, 1, 0, 1)) for i, p in enumerate(prices))
    )


def parquet_trades(path: Path) -> Path:
    at = pa.array([OPENING * 10**9, OPENING * 10**9 + 1], pa.timestamp("ns", "UTC"))
    pq.write_table(
        pa.table({"ts": at, "price": [4755.25, 4755.0], "size": pa.array([2, 1], pa.int64())}), path
    )
    return path


def lean_zip(path: Path, members: dict[str, str]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in members.items():
            archive.writestr(name, text)
    return path


def all_kinds(folder: Path) -> list[Path]:
    """Write one file of each kind."""
    folder = folder / "kinds"
    folder.mkdir(exist_ok=True)
    texts = {
        "ESH4.databento.csv": DATABENTO_TRADES, "ESH4_kibot.txt": KIBOT_BARS, "ESH4_ticks.txt": KIBOT_TICKS,
        "ES_H24_1min.txt": FIRSTRATE, "ES 03-24.Last.txt": NINJA_BARS, "ES 03-24.Ticks.txt": NINJA_TICKS,
        "ESH4_tv.csv": TRADINGVIEW, "ESH4.csv": GENERIC,
    }  # fmt: skip
    for name, text in texts.items():
        (folder / name).write_text(text)
    (folder / "ESH24_FUT_CME.scid").write_bytes(scid_ticks([4755.25, 4755.0, 4755.5, 4755.75]))
    parquet_trades(folder / "ESH4.parquet")
    return sorted(folder.iterdir())
