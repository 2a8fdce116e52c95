"""Read Sierra Chart intraday files (`.scid`): ticks, or bars of one second or one minute.

Layout (Sierra's `IntradayRecord.h`): a header of 56 bytes, then records of 40 bytes. Times are µs since 1899-12-30 UTC.
Their µs digits only make records unique, so the resolution is 1 ms. Prices are float32, in some files multiplied by a
power of ten. A price becomes the nearest tick only if float32 cannot distinguish the two. Any other price is passed on
unchanged, and the importer counts it as off-tick.
"""

from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outcry.market.instruments import Contract
from outcry.market.units import NANOS_PER_MS
from outcry.recordings.file_model import Assumptions, FileRefused, ReadOptions
from outcry.recordings.formats.archive import CountedFile, fill
from outcry.recordings.formats.bar_checks import bar_length, refuse_broken_bars, refuse_repeats
from outcry.recordings.formats.contract_filter import ContractFilter
from outcry.recordings.formats.contract_names import ContractNames
from outcry.recordings.formats.file_reading import FileReading, ReadProgress
from outcry.recordings.formats.price_scale import PriceScale, are_plain_prices, detect_multiplier
from outcry.trades.records import BAR, TRADE, Batch, Quality

HEADER = np.dtype(
    [("magic", "S4"), ("header_size", "<u4"), ("record_size", "<u4"), ("version", "<u2"), ("unused", "<u2"),
     ("start_index", "<u4"), ("reserve", "V36")]
)  # fmt: skip
RECORD = np.dtype(
    [("at", "<i8"), ("open", "<f4"), ("high", "<f4"), ("low", "<f4"), ("close", "<f4"), ("trades", "<u4"),
     ("volume", "<u4"), ("bid_volume", "<u4"), ("ask_volume", "<u4")]
)  # fmt: skip
#: µs from 1899-12-30 to 1970-01-01.
EPOCH_US = 2_209_161_600_000_000
LATEST_MS = 4_102_444_800_000
#: Value of Open in a tick: 0, or a marker for the first or last part of a trade reported in parts.
FIRST_PART = np.float32(-1.99900095e37)
LAST_PART = np.float32(-1.99900197e37)
CHUNK_RECORDS = 100_000
SAMPLE_RECORDS = 50_000
#: Number of trades from which the type of a growing file is decided.
ENOUGH_TRADES = 200

#: Source name of these recordings.
SOURCE = "sierra"
QUOTES = "quotes without a trade"
NO_PRICE = "invalid prices"
PARTIAL = "partial last record"

Records = NDArray[Any]


def open_scid(path: Path, names: ContractNames, options: ReadOptions) -> FileReading:
    """Start reading a Sierra Chart file. The file's name contains the contract."""
    with CountedFile(path) as file:
        start = read_header(file)
        sample = read_sample(file, start)
    if not len(sample):
        raise FileRefused(path, f"byte {start}", "the file has a header and no complete record")
    selection = ContractFilter(path, names, options.contract)
    contract = selection.named_by_file(_day(sample[0], path))
    names.refuse_fractions(contract, path)
    tick_e9 = names.universe.products[contract.root].tick_e9
    multiplier = detect_multiplier(sample["close"][sample["volume"] > 0], tick_e9, path)

    def rows(opened: CountedFile, progress: ReadProgress) -> Generator[Batch]:
        return _read(opened, ScidDecoder(path, contract, tick_e9, sample, progress), progress)

    return FileReading(path, "scid", SOURCE, file.size, rows, assumed=Assumptions(scale=f"{multiplier:g}"))


def read_header(file: CountedFile) -> int:
    """Check the header; return the offset of the first record. Raises `FileRefused`."""
    raw = file.read(HEADER.itemsize) or b""
    if len(raw) < HEADER.itemsize:
        raise FileRefused(file.path, f"byte {len(raw)}", "the file ends inside its header")
    header = np.frombuffer(raw, HEADER)[0]
    if header["magic"] != b"SCID":
        raise FileRefused(file.path, "byte 0", "not a Sierra Chart file: it does not start with `SCID`")
    if header["record_size"] != RECORD.itemsize:
        raise FileRefused(file.path, "byte 8", f"the file has records of {header['record_size']} bytes",
                          f"only records of {RECORD.itemsize} bytes are supported")  # fmt: skip
    start = int(header["header_size"])
    if not HEADER.itemsize <= start <= 4096:
        raise FileRefused(
            file.path, "byte 4", f"the header length of {start:,} bytes is invalid", "the file is damaged"
        )
    return start


def read_sample(file: CountedFile, start: int) -> Records:
    """Return records from the beginning and the end of the file, to detect the price scale and the record type."""
    whole = max(0, file.size - start) // RECORD.itemsize
    parts: list[Records] = []
    for first in sorted({0, max(0, whole - SAMPLE_RECORDS)}):
        file.seek(start + first * RECORD.itemsize)
        buffer = memoryview(bytearray(min(whole, SAMPLE_RECORDS) * RECORD.itemsize))
        got = fill(file, buffer)
        parts.append(np.frombuffer(buffer[: got // RECORD.itemsize * RECORD.itemsize], RECORD))
    return np.concatenate(parts)


def is_conclusive(sample: Records, tick_e9: int) -> bool:
    """Return whether these records are enough to determine the price scale and the record type."""
    traded = sample[sample["volume"] > 0]
    if len(traded) >= ENOUGH_TRADES:
        return True
    bars = traded[~_plain_tick(traded) & ~_flat(traded)]
    kind_known = bool(_plain_tick(traded).any()) or len(np.unique(bars["at"])) > 1
    return kind_known and are_plain_prices(traded["close"], tick_e9)


def unix_ns(records: Records) -> NDArray[np.int64]:
    """Return the times of records in ns UTC, rounded down to milliseconds."""
    return (records["at"] - EPOCH_US) // 1_000 * NANOS_PER_MS


def _plain_tick(records: Records) -> Records:
    """Return for each record whether it is certainly a tick, by the value of its field Open."""
    opens = records["open"]
    return (records["trades"] == 1) & ((opens == 0) | (opens == FIRST_PART) | (opens == LAST_PART))


def _flat(records: Records) -> Records:
    """Return for each record whether it has one trade and a single price; such a record may be a tick or a bar."""
    same = (records["open"] == records["high"]) & (records["high"] == records["low"])
    return (records["trades"] == 1) & same & (records["low"] == records["close"])


def _day(record: Any, path: Path) -> Any:
    days = (int(record["at"]) - EPOCH_US) // 86_400_000_000
    if not 0 <= days < 47_482:
        raise FileRefused(path, "record 1", "the timestamp is out of range", "the file is damaged")
    return np.datetime64(days, "D").item()


def _read(file: CountedFile, decoder: "ScidDecoder", progress: ReadProgress) -> Generator[Batch]:
    """Yield the rows of a file in batches, up to its last complete record."""
    start = read_header(file)
    file.seek(start)
    whole, rest = divmod(file.size - start, RECORD.itemsize)
    buffer = memoryview(bytearray(CHUNK_RECORDS * RECORD.itemsize))
    number = 0
    while number < whole:
        got = fill(file, buffer[: (whole - number) * RECORD.itemsize]) // RECORD.itemsize
        if not got:
            raise FileRefused(file.path, f"record {number + 1:,}", "the file shrank while it was read")
        yield from decoder.decode(np.frombuffer(buffer, RECORD, got), number)
        number += got
    progress.counts.skip(PARTIAL, 1 if rest else 0)


class ScidDecoder:
    """Converts records of a Sierra Chart file to batches of ticks and of bars.

    sample: records from which the price scale and the record type are detected; raises `FileRefused` if they are not
    prices of the contract. bars: length of the bars if it is known; otherwise the first bars determine it.
    """

    def __init__(
        self, path: Path, contract: Contract, tick_e9: int, sample: Records, progress: ReadProgress,
        bars: Quality | None = None,
    ) -> None:  # fmt: skip
        self._path, self._contract, self._progress, self._counts = path, contract, progress, progress.counts
        traded = sample[sample["volume"] > 0]
        multiplier = detect_multiplier(traded["close"], tick_e9, path)
        self._scale = PriceScale(multiplier, tick_e9)
        ticks = _plain_tick(traded)
        #: If no record is marked as a tick, a flat one among bars is a bar of one trade.
        self._flat_is_tick = bool(ticks.any()) or bool(_flat(traded).all())
        self.bars = bars
        self._last: int | None = None

    def are_bars(self, records: Records) -> NDArray[np.bool_]:
        """Return for each record whether it is a bar with volume."""
        ticks = _plain_tick(records)
        return (records["volume"] > 0) & ~(ticks | _flat(records) if self._flat_is_tick else ticks)

    def decode(self, records: Records, number: int) -> Iterator[Batch]:
        """Yield the rows of these records. number: how many records of the file come before them.

        Raises `FileRefused`.
        """
        self._progress.place = f"record {number + 1:,}"
        ms = (records["at"] - EPOCH_US) // 1_000
        wrong = np.flatnonzero((ms < 0) | (ms >= LATEST_MS))
        if len(wrong):
            raise FileRefused(self._path, f"record {number + 1 + int(wrong[0]):,}", "the timestamp is out of range",
                              "the file is damaged")  # fmt: skip
        traded = records["volume"] > 0
        finite = self._scale.possible(records["close"])
        self._counts.skip(QUOTES, int(np.count_nonzero(~traded)))
        self._counts.skip(NO_PRICE, int(np.count_nonzero(traded & ~finite)))
        bars = self.are_bars(records)
        for quality, chosen in ((Quality.TICKS, traded & finite & ~bars), (None, finite & bars)):
            numbers = np.flatnonzero(chosen)
            if len(numbers):
                part, at = records[numbers], ms[numbers] * NANOS_PER_MS
                if quality is None:
                    yield Batch(
                        self._contract, *self._bars(part, at, numbers + number + 1), self._progress.place
                    )
                else:
                    yield Batch(self._contract, quality, self._trades(part, at), self._progress.place)

    def _trades(self, records: Records, at: NDArray[np.int64]) -> Records:
        rows = np.zeros(len(records), TRADE)
        rows["ts_event"] = at
        rows["price"] = self._scale.price_e9(records["close"])
        rows["size"] = records["volume"]
        buys, sells = records["ask_volume"] > 0, records["bid_volume"] > 0
        rows["side"] = np.where(buys & ~sells, b"B", np.where(sells & ~buys, b"A", b"N"))
        return rows

    def _bars(self, records: Records, at: NDArray[np.int64], numbers: Records) -> tuple[Quality, Records]:
        def place(row: int) -> str:
            return f"record {int(numbers[row]):,}"

        rows = np.zeros(len(records), BAR)
        rows["ts_event"], rows["volume"] = at, records["volume"]
        for name in ("open", "high", "low", "close"):
            column = records[name]
            odd = np.flatnonzero(~self._scale.possible(column))
            if len(odd):
                raise FileRefused(
                    self._path,
                    place(int(odd[0])),
                    f"a bar's {name} is not a valid price",
                    "the file is damaged",
                )
            rows[name] = self._scale.price_e9(column)
        refuse_broken_bars(rows, self._path, place)
        if self.bars is None:
            self.bars = bar_length(at, self._path, place(0))
        refuse_repeats(at, self._last, self._path, place)
        self._last = int(at[-1])
        return self.bars, rows
