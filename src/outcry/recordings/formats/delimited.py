"""Read text tables as trades or bars: Databento, Kibot, FirstRate, NinjaTrader, TradingView and CSV with a header.

The time zone, the meaning of bar timestamps and the contract are never assumed. Bars get the time of their start. Rows
stay in the file's order, and identical trades are all imported.
"""

from collections.abc import Generator, Iterator, Sequence
from datetime import date
from pathlib import Path
from typing import Any, Protocol
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
from numpy.typing import NDArray

from outcry.market.instruments import Contract
from outcry.market.units import NANOS_PER_DAY, PRICE_SCALE, UNDEFINED_PRICE_E9, price_text
from outcry.recordings.file_model import FileRefused, ReadOptions
from outcry.recordings.formats import bad_rows
from outcry.recordings.formats import cell_parsing as cells
from outcry.recordings.formats.archive import CountedFile, decompressed
from outcry.recordings.formats.arrow import Array, RecordBatch, pa, pc
from outcry.recordings.formats.bad_rows import BadRows
from outcry.recordings.formats.bar_checks import BarChecks, refuse_running_totals
from outcry.recordings.formats.contract_filter import ContractFilter
from outcry.recordings.formats.contract_names import ContractNames
from outcry.recordings.formats.dialects import BAR_ROLES, TOTAL, Dialect, apply_options, read_head, sniff
from outcry.recordings.formats.file_reading import FileReading, ReadProgress
from outcry.recordings.formats.table_text import TextTable
from outcry.recordings.formats.time_format import TimeFormat
from outcry.recordings.formats.timestamp_parsing import ZonedTimes, parse_timestamps
from outcry.recordings.formats.unlikely_prices import FAR_PERCENT, unlikely
from outcry.trades.records import BAR, TRADE, Batch, Quality

NO_SIZE = "zero size"
NO_VOLUME = "bars without volume"
NO_PRICE = "undefined price"
NOT_TRADES = "order events that are not trades"
SUSPICIOUS = "prints marked suspicious"
_U32 = (1 << 32) - 1
_SCHEMA_RTYPES = {"32": Quality.BARS_1S, "33": Quality.BARS_1M}

Rows = NDArray[Any]
#: Each contract of a block of rows, or the reason to skip its rows, with the mask of its rows (None: all rows).
Contracts = Sequence[tuple[Contract | str, Rows | None]]


#: Options with a fixed set of values: field of `ReadOptions`, name, values.
_CHOICES = (
    ("stamp", "--stamp", ("open", "close")),
    ("volume", "--volume", ("each", TOTAL)),
    ("decimal", "--decimal", ("point", "comma")),
    ("dates", "--dates", ("day-first", "month-first")),
    ("bad_rows", "--bad-rows", bad_rows.CHOICES),
)


def _check_values(path: Path, options: ReadOptions) -> None:
    """Refuse an option with an unknown value."""
    for field, option, values in _CHOICES:
        value = getattr(options, field)
        if value not in (None, *values):
            others = (
                f"neither {values[0]} nor {values[1]}"
                if len(values) == 2
                else f"not one of {', '.join(values)}"
            )
            ways = [f"{option} {one}" for one in values]
            raise FileRefused(path, option, f"{value[:40]!r} is {others}",
                              f"use {', '.join(ways[:-1])} or {ways[-1]}")  # fmt: skip


def check_options(path: Path, dialect: Dialect, options: ReadOptions) -> None:
    """Refuse a table unless its time zone and the meaning of its bar timestamps are known.

    The error names the option with which the user can state the missing one.
    """
    _check_values(path, options)
    fixed_order = (
        "month-first" if dialect.stamps is TimeFormat.US and dialect.format == "kibot" else "day-first"
    )
    if dialect.dates not in (None, fixed_order) and (dialect.format == "kibot" or dialect.dotted):
        raise FileRefused(path, "--dates", f"the dates of this file are {fixed_order}, but --dates is {dialect.dates}",
                          "omit --dates")  # fmt: skip
    for place, zone in (("--tz", options.tz), ("the times", dialect.written_zone)):
        try:
            ZoneInfo(zone or "UTC")
        except (ZoneInfoNotFoundError, ValueError, OSError) as fault:
            raise FileRefused(path, place, f"{zone!r:.40} is not a time zone",
                              "use an IANA name, for example America/New_York or UTC") from fault  # fmt: skip
    if dialect.says_utc and options.tz not in (None, "UTC"):
        raise FileRefused(path, "--tz", f"the name of the time column says UTC, but --tz is {options.tz}",
                          "omit --tz, or remove `_utc` from the column name if the times are not in UTC")  # fmt: skip
    if dialect.written_zone is not None and options.tz not in (None, dialect.written_zone):
        raise FileRefused(path, "--tz", f"the timestamps are in {dialect.written_zone}, but --tz is {options.tz}",
                          "omit --tz")  # fmt: skip
    if dialect.stamps.naive and dialect.zone is None:
        raise FileRefused(path, "", "the timestamps have no time zone",
                          "add --tz, for example --tz America/New_York or --tz UTC")  # fmt: skip
    if dialect.bars and dialect.ends is None:
        raise FileRefused(path, "", "cannot tell whether a bar's timestamp is its start or its end",
                          "add --stamp open (start) or --stamp close (end)")  # fmt: skip


class Table(Protocol):
    """Interface of a table whose rows can be read: a text file, a member of an archive, or a Parquet file."""

    @property
    def path(self) -> Path:
        """Path of the file."""
        ...

    @property
    def inside(self) -> str:
        """Return the name of the archive member for error messages; empty if the table is a file of its own."""
        ...

    def blocks(self, file: CountedFile, wanted: list[int]) -> Iterator[tuple[int, RecordBatch]]:
        """Yield blocks of the wanted columns, each with the number of rows in the blocks before it."""
        ...

    def place(self, row: int) -> str:
        """Return the place of a row for error messages."""
        ...


class TableReader:
    """Reader of the rows of one table.

    `contract`: the contract of all rows if it is known from elsewhere, for example from the name of an archive member.
    `bad`: leaves out invalid rows; without it, such a row refuses the file.
    """

    def __init__(self, table: Table, dialect: Dialect, selection: ContractFilter, progress: ReadProgress, *,
                 contract: Contract | str | None = None, bad: BadRows | None = None) -> None:  # fmt: skip
        self._table, self._dialect, self._selection = table, dialect, selection
        self._progress, self._counts = progress, progress.counts
        self._contract = contract
        self._local = ZonedTimes(dialect.zone or "UTC")
        self._quality = Quality.TICKS if not dialect.bars else dialect.quality
        self._roles = sorted(dialect.columns, key=lambda role: dialect.columns[role])
        self._bar_checks = BarChecks(table.path, bad)
        self._bad = bad
        self._last: dict[Contract, int] = {}
        self._read = 0
        self._lost: list[tuple[str, Rows]] = []
        self._numbers: set[str] = set()

    def batches(self, file: CountedFile) -> Generator[Batch]:
        """Yield the rows of the table in batches."""
        columns = [self._dialect.columns[role] for role in self._roles]
        for before, block in self._table.blocks(file, columns):
            try:
                yield from self._block(block, before)
            except cells.InvalidCell as fault:
                where = self._table.place(before + fault.row)
                raise FileRefused(self._table.path, where, fault.problem, fault.remedy) from fault
        if self._bad:
            self._bad.refuse_many(self._read)

    def _block(self, block: RecordBatch, before: int) -> Iterator[Batch]:
        lines = np.arange(before, before + len(block))
        rows_in_block = len(block)
        self._read += rows_in_block
        while len(block):
            passage = self._local.state()
            try:
                contracts, rows, keep = self._parsed(block)
            except cells.InvalidCell as fault:
                if self._bad is None:
                    raise
                bad = int(lines[fault.row])
                self._bad.leave_out(lambda row=bad: self._table.place(row), fault.problem)
                self._local.restore(passage)
                good = np.arange(len(lines)) != fault.row
                lines, block = lines[good], block.filter(pa.array(good))
                if len(block) < rows_in_block - bad_rows.MOST_IN_BLOCK:
                    raise self._bad.too_many(f"{self._bad.count:,} rows are invalid") from fault
                continue
            for contract, mask in contracts:
                yield from self._emit(contract, rows, mask, keep, lines)
            return

    def _parsed(self, block: RecordBatch) -> tuple[Contracts, Rows, Rows]:
        """Return the contracts of a block of rows, the rows, and which of them to keep. Raises `InvalidCell`."""
        cell = {role: block.column(index) for index, role in enumerate(self._roles)}
        self._lost = []
        if self._dialect.comma:
            for role in (*BAR_ROLES, "price", "size"):
                if role in cell:
                    cell[role] = cells.with_points(cell[role], role)
        at = self._times(cell)
        contracts = list(self._contracts(cell, int(at[0])))
        return contracts, *(self._bars if self._dialect.bars else self._trades)(cell, at, contracts)

    def _emit(
        self, contract: Contract | str, rows: Rows, mask: Rows | None, keep: Rows, lines: Rows
    ) -> Iterator[Batch]:
        numbers = np.arange(len(rows)) if mask is None else np.flatnonzero(mask)
        if isinstance(contract, str):
            self._counts.skip(contract, len(numbers))
            return
        near = _day(int(rows["ts_event"][numbers[0]]))
        if not self._selection.admits(contract, near, len(numbers), self._counts):
            return
        for reason, lost in self._lost:
            self._counts.skip(reason, int(np.count_nonzero(lost[numbers])))
        numbers = numbers[keep[numbers]]
        chosen, numbers = rows[numbers], lines[numbers]
        if not len(chosen):
            return
        if not self._dialect.totals:
            volumes = chosen["volume" if self._dialect.bars else "size"]
            refuse_running_totals(volumes, self._table.path, lambda row: self._table.place(int(numbers[row])))
        if self._dialect.bars:
            kept, self._quality = self._bar_checks.check(
                contract, chosen, self._quality, lambda row: self._table.place(int(numbers[row]))
            )
            chosen, numbers = chosen[kept], numbers[kept]
        chosen = self._likely(contract, chosen, numbers)
        if not len(chosen):
            return
        quality = self._quality or Quality.TICKS
        if self._dialect.bars and self._dialect.ends:
            chosen["ts_event"] -= quality.length_ns
        row = f"row {int(lines[0]) + 1:,}"
        where = f"{self._table.inside}, {row}" if self._table.inside else row
        self._progress.place = where
        yield Batch(contract, quality, chosen, where)

    def _likely(self, contract: Contract, rows: Rows, lines: Rows) -> Rows:
        """Return the rows whose prices are likely. Refuse the others, or leave them out. lines: the places of rows."""
        if self._dialect.bad_rows == bad_rows.KEEP or not len(rows):
            return rows
        low, high, last = ("low", "high", "close") if self._dialect.bars else ("price", "price", "price")
        prices = [np.ascontiguousarray(rows[name]) for name in (low, high, last)]
        tick_e9 = self._selection.names.tick_of(contract)
        wrong = unlikely(prices[0], prices[1], prices[2], self._last.get(contract), tick_e9)
        for row in wrong.tolist():
            odd = max(
                (int(column[row]) for column in prices),
                key=lambda price: abs(price - int(np.median(prices[2]))),
            )
            problem = f"the price {price_text(odd)} is more than {FAR_PERCENT} % away from the rows around it"
            if self._bad is None:
                raise FileRefused(self._table.path, self._table.place(int(lines[row])), problem,
                                  "correct the row, or add --bad-rows skip to leave it out, or --bad-rows keep if the "
                                  "price is right")  # fmt: skip
            self._bad.leave_out(lambda at=int(lines[row]): self._table.place(at), problem)
        rows = np.delete(rows, wrong) if len(wrong) else rows
        if len(rows):
            self._last[contract] = int(rows[last][-1])
        return rows

    def _times(self, cell: dict[str, Array]) -> NDArray[np.int64]:
        stamps = [cell[role] for role in ("stamp", "clock") if role in cell]
        return parse_timestamps(stamps, self._dialect.stamps, self._local, self._dialect.day_ns)

    def _sizes(self, column: Array, what: str, most: int, contracts: Contracts) -> NDArray[np.int64]:
        """Parse sizes to lots, or to whole steps of the products that are traded in fractions.

        Then sizes of rows that no known product has are not parsed.
        """
        names = self._selection.names
        if all(names.step_of(contract) == PRICE_SCALE for contract, _ in contracts):
            return cells.lots(column, what, most)
        sizes = np.zeros(len(column), np.int64)
        for contract, mask in contracts:
            if isinstance(contract, str):
                continue
            chosen = np.arange(len(column)) if mask is None else np.flatnonzero(mask)
            part = column.take(pa.array(chosen))
            try:
                sizes[chosen] = cells.steps(part, what, names.step_of(contract), most - 1)
            except cells.InvalidCell as fault:
                raise cells.InvalidCell(int(chosen[fault.row]), fault.problem, fault.remedy) from fault
        return sizes

    def _trades(
        self, cell: dict[str, Array], at: NDArray[np.int64], contracts: Contracts
    ) -> tuple[Rows, Rows]:
        rows = np.zeros(len(at), TRADE)
        keep = np.ones(len(at), dtype=bool)
        if "action" in cell:
            self._lose(
                keep,
                pc.equal(pc.cast(cell["action"], pa.string()), "T").to_numpy(zero_copy_only=False),
                NOT_TRADES,
            )
        rows["ts_event"], rows["side"] = at, b"N"
        prices, known = self._known_prices(cell["price"], keep)
        rows["price"][known] = prices
        sizes = self._sizes(cell["size"], "size", _U32, contracts)
        rows["size"] = sizes
        if "side" in cell:
            rows["side"] = _sides(cell["side"])
        for role in ("sequence", "flags"):
            if role in cell:
                rows[role] = cells.lots(cell[role], role, _U32 if role == "sequence" else 255)
        self._lose(keep, (sizes != _U32) & (self._dialect.zero_sizes | (sizes != 0)), NO_SIZE)
        if "suspicious" in cell:
            self._lose(keep, cells.whole(cell["suspicious"], "mark") == 0, SUSPICIOUS)
        return rows, keep

    def _known_prices(self, column: Array, keep: Rows) -> tuple[NDArray[np.int64], Rows]:
        """Return the prices of the rows that have one, and which of the rows `keep` these are.

        A row without a price is a record that clears the order book.
        """
        scale, fixed = self._dialect.scale, self._dialect.fixed
        if "action" not in self._dialect.columns:
            return cells.prices(column, "price", scale, fixed=fixed), np.arange(len(column))
        known = np.flatnonzero(keep)
        try:
            prices = cells.prices(column.take(pa.array(known)), "price", scale, fixed=fixed)
        except cells.InvalidCell as fault:
            raise cells.InvalidCell(int(known[fault.row]), fault.problem, fault.remedy) from fault
        defined = prices != UNDEFINED_PRICE_E9
        mask = np.ones(len(keep), dtype=bool)
        mask[known[~defined]] = False
        self._lose(keep, mask, NO_PRICE)
        return prices[defined], known[defined]

    def _bars(self, cell: dict[str, Array], at: NDArray[np.int64], contracts: Contracts) -> tuple[Rows, Rows]:
        rows = np.zeros(len(at), BAR)
        rows["ts_event"] = at
        for role in BAR_ROLES[:4]:
            rows[role] = cells.prices(cell[role], role, self._dialect.scale, fixed=self._dialect.fixed)
        rows["volume"] = self._sizes(cell["volume"], "volume", 1 << 62, contracts)
        if "rtype" in cell:
            self._quality = self._schema_quality(cell["rtype"])
        keep = np.ones(len(at), dtype=bool)
        self._lose(keep, rows["volume"] != 0, NO_VOLUME)
        return rows, keep

    def _schema_quality(self, rtypes: Array) -> Quality:
        kinds = [str(kind) for kind in pc.unique(rtypes).to_pylist()]
        if len(kinds) != 1 or kinds[0] not in _SCHEMA_RTYPES:
            raise FileRefused(self._table.path, "", "hourly and daily bars are too coarse for 30-minute brackets",
                              "export trades, ohlcv-1s or ohlcv-1m")  # fmt: skip
        return _SCHEMA_RTYPES[kinds[0]]

    def _lose(self, keep: Rows, good: Rows, reason: str) -> None:
        self._lost.append((reason, keep & ~good))
        keep &= good

    def _contracts(
        self, cell: dict[str, Array], first_ns: int
    ) -> Iterator[tuple[Contract | str, Rows | None]]:
        near = _day(first_ns)
        if self._contract is not None:
            yield self._contract, None
        elif "symbol" in cell:
            cells.refuse_nulls(cell["symbol"], "symbol")
            codes = pc.cast(cell["symbol"], pa.string()).dictionary_encode()
            numbers = codes.indices.to_numpy()
            for code, symbol in enumerate(codes.dictionary.to_pylist()):
                mask = numbers == code
                yield self._selection.names.contract(symbol, near), mask
        else:
            self._refuse_several(cell)
            yield self._selection.named_by_file(near), None

    def _refuse_several(self, cell: dict[str, Array]) -> None:
        if "instrument_id" in cell:
            self._numbers.update(map(str, pc.unique(cell["instrument_id"]).to_pylist()[:2]))
        if len(self._numbers) > 1:
            raise FileRefused(self._table.path, "", "the file has several instruments and no symbols",
                              "export it again with a symbol column")  # fmt: skip


def _sides(column: Array) -> NDArray[Any]:
    """Return aggressor sides as B, A or N from `B`, `buy`, `A`, `ask`, `S` or `sell`."""
    first = pc.utf8_upper(pc.utf8_slice_codeunits(pc.cast(column, pa.string()), 0, 1))
    buys = pc.equal(first, "B").to_numpy(zero_copy_only=False)
    sells = pc.is_in(first, pa.array(["A", "S"])).to_numpy(zero_copy_only=False)
    return np.where(buys, b"B", np.where(sells, b"A", b"N"))


def _day(at_ns: int) -> date:
    return date.fromordinal(date(1970, 1, 1).toordinal() + at_ns // NANOS_PER_DAY)


def open_table(path: Path, size: int, head: bytes, names: ContractNames, options: ReadOptions) -> FileReading:
    """Start reading a text table, compressed or not; `head` is its first decompressed bytes."""
    found = read_head(
        path, head, format_name=options.format, totals=options.volume == TOTAL, dates=options.dates,
        skip=options.bad_rows == bad_rows.SKIP,
    )  # fmt: skip
    dialect = sniff(found)
    dialect = apply_options(dialect, options)
    check_options(path, dialect, options)

    def rows(file: CountedFile, progress: ReadProgress) -> Generator[Batch]:
        bad = BadRows(path, progress.counts) if dialect.bad_rows == bad_rows.SKIP else None
        table = TextTable(path, decompressed, dialect.delimiter, dialect.width, dialect.skip_lines, bad=bad)
        selection = ContractFilter(path, names, options.contract, options.unnamed)
        yield from TableReader(table, dialect, selection, progress, bad=bad).batches(file)
        selection.finish(progress.counts.rows)

    return FileReading(path, dialect.format, dialect.source, size, rows, assumed=dialect.assumed)
