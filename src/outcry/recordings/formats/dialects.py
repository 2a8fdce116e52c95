"""Detect the dialect of a text table from its first lines: its columns, time format, time zone and bar timestamps.

The docstring of each detector lists what its layout determines. Everything else stays None, and the user must state it
with an option that `delimited` requires.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from outcry.recordings.file_model import Assumptions, FileRefused, ReadOptions
from outcry.recordings.formats.bad_rows import REFUSE
from outcry.recordings.formats.time_format import TimeFormat
from outcry.trades.records import Quality

NEW_YORK = "America/New_York"
#: With `--bad-rows skip`, the header may follow this many lines of notes; it has at least so many known names.
_MOST_NOTES, _HEADER_NAMES = 20, 3
BAR_ROLES = ("open", "high", "low", "close", "volume")
GENERIC = "csv"
#: Values of `--volume`, and of `--dates`.
EACH, TOTAL = "each", "total"
DAY_FIRST, MONTH_FIRST = "day-first", "month-first"

#: Accepted column names, in lower case. `_utc` after a time column's name sets its zone.
NAMES = {
    "stamp": ("timestamp", "datetime", "date_time", "ts_event", "ts", "time", "date"),
    "open": ("open", "o"), "high": ("high", "h"), "low": ("low", "l"), "close": ("close", "c"),
    "volume": ("volume", "vol", "v"),
    "price": ("price", "last", "last_price", "trade_price", "ltp"),
    "size": ("size", "qty", "quantity", "last_size", "trade_size", "ltq", "volume", "vol"),
    "side": ("side", "aggressor"), "sequence": ("sequence", "seq"),
    "symbol": ("symbol", "contract", "ticker", "instrument", "raw_symbol"),
}  # fmt: skip
#: Names of a column with a running total of the day's volume. `--volume total` also reads a `volume` as such a total.
TOTAL_NAMES = (
    "cumulative_volume",
    "cum_volume",
    "total_volume",
    "day_volume",
    "volume_traded",
    "total_traded_volume",
)

_ISO = re.compile(r"\d{4}-\d\d-\d\d([ T]\d\d:\d\d(:\d\d(\.\d{1,9})?)?)?")
_ABSOLUTE = re.compile(_ISO.pattern + r"(Z|[+-]\d\d:?\d\d)")
_US_DATE = re.compile(r"\d\d/\d\d/\d{4}")
_CLOCK = re.compile(r"\d\d:\d\d(:\d\d(\.\d{1,9})?)?")
#: Two digits, two digits, year: with dots the day is first, otherwise `--dates` must state the order.
_DOTTED = re.compile(r"\d\d\.\d\d\.\d{4}( " + _CLOCK.pattern + ")?")
_EITHER = re.compile(r"\d\d([/-])\d\d\1\d{4}( " + _CLOCK.pattern + ")?")
_IB = re.compile(r"\d{8} {1,2}\d\d:\d\d(:\d\d(\.\d{1,9})?)?(?: (?P<zone>[A-Za-z]+(?:/[A-Za-z_]+)*))?")
_COMPACT = re.compile(r"\d{8} \d{6}( \d{7})?")
_EPOCH = re.compile(r"\d{9,19}")
_TIME = re.compile(
    "|".join(f"(?:{form.pattern.replace('?P<zone>', '?:')})" for form in (_ABSOLUTE, _ISO, _IB, _COMPACT))
)


@dataclass(frozen=True, slots=True)
class Dialect:
    """Layout of a text table. `columns` maps a role (`price`, `stamp`, optionally `clock`, …) to a column number.

    zone: IANA zone of timestamps without a zone. ends: whether a bar's timestamp is its end. fixed: prices are integers
    in units of 10⁻⁹. scale: factor that converts a price to the exchange's unit. quality: length of bars, if the layout
    determines it. zero_sizes: trades of size 0 are imported. says_utc: the time column's name ends in `_utc`.
    written_zone: the zone that each timestamp names. totals: the volume is a running total of the day. comma: numbers
    have a decimal comma. dates: the order of the user, for dates such as 02/01/2024. bad_rows: as in `ReadOptions`.
    """

    format: str
    source: str
    delimiter: str
    skip_lines: int
    width: int
    columns: dict[str, int] = field(repr=False)
    stamps: TimeFormat
    zone: str | None = None
    ends: bool | None = None
    fixed: bool = False
    scale: int = 1
    quality: Quality | None = None
    day_ns: int = 0
    zero_sizes: bool = False
    says_utc: bool = False
    written_zone: str | None = None
    totals: bool = False
    comma: bool = False
    dates: str | None = None
    bad_rows: str = REFUSE

    @property
    def dotted(self) -> bool:
        """Return whether the dates themselves state that the day is first."""
        return self.stamps is TimeFormat.DAY_FIRST and self.dates != DAY_FIRST

    @property
    def bars(self) -> bool:
        """Return whether the rows are bars."""
        return "open" in self.columns

    @property
    def assumed(self) -> Assumptions:
        """Return what the user's options and the rules of the format add to what the table itself states."""
        stated = self.says_utc or self.written_zone is not None or not self.stamps.naive
        stamp = None if not self.bars else "close" if self.ends else "open"
        return Assumptions(
            tz=None if stated else self.zone, stamp=stamp, volume=TOTAL if self.totals else None,
            decimal="comma" if self.comma else None, dates=self.dates,
            bad_rows=None if self.bad_rows == REFUSE else self.bad_rows,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Head:
    """The first lines of a table, split into fields.

    `first`: the first non-empty line. `second`: the next one. `format_name`: the format that the user named, if any.
    `totals` and `dates`: whether the volume is a running total, and the order of dates, as the user states.
    """

    path: Path
    line: int
    delimiter: str
    first: list[str]
    second: list[str]
    names: dict[str, int]
    format_name: str | None = None
    totals: bool = False
    dates: str | None = None

    def refuse(self, problem: str, remedy: str = "") -> FileRefused:
        """Return the error for a problem in the first line."""
        return FileRefused(self.path, f"line {self.line}", problem, remedy)


def read_head(
    path: Path, head: bytes, *, format_name: str | None = None, totals: bool = False, dates: str | None = None,
    skip: bool = False,
) -> Head:  # fmt: skip
    """Split the first lines of a table; raise `FileRefused` for bytes that are not text.

    skip: pass over notes before the header, and before the first row.
    """
    if head[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise FileRefused(path, "byte 0", "the text is UTF-16", "save it as UTF-8")
    cut = head.rfind(b"\n")
    try:
        text = (head[:cut] if cut >= 0 and len(head) >= 1 << 16 else head).decode("utf-8-sig")
    except UnicodeDecodeError as fault:
        raise FileRefused(path, f"byte {fault.start:,}", "unknown file format",
                          "docs/guides/importing.md lists the supported formats") from fault  # fmt: skip
    if "\0" in text:
        raise FileRefused(path, f"byte {text.index(chr(0)):,}", "unknown file format",
                          "docs/guides/importing.md lists the supported formats")  # fmt: skip
    lines = [(n, line.rstrip("\r")) for n, line in enumerate(text.split("\n"), 1) if line.strip()]
    if not lines:
        raise FileRefused(path, "", "the file has only blank lines")
    if skip:
        lines = _without_notes(lines)
    number, first = lines[0]
    delimiter = max(",;\t|", key=first.count)
    split = [_fields(line, delimiter) for _, line in lines[:2]]
    if len(split) > 1:
        split[0] = _with_time(split[0], split[1])
    names = {name.lower(): index for index, name in reversed(list(enumerate(split[0])))}
    second = split[1] if len(split) > 1 else []
    return Head(path, number, delimiter, split[0], second, names, format_name, totals, dates)


def _without_notes(lines: list[tuple[int, str]]) -> list[tuple[int, str]]:
    """Return numbered lines without notes before the header, and between it and the first row with as many columns."""
    known = {name for names in NAMES.values() for name in names}
    for index, (_, line) in enumerate(lines[:_MOST_NOTES]):
        delimiter = max(",;\t|", key=line.count)
        fields = _fields(line, delimiter)
        if len({name.lower().removesuffix("_utc") for name in fields} & known) >= _HEADER_NAMES:
            later = lines[index + 1 :]
            rows = [at for at, (_, row) in enumerate(later) if len(_fields(row, delimiter)) == len(fields)]
            return [lines[index], *(later[rows[0] :] if rows else later)]
    return lines


def _with_time(header: list[str], row: list[str]) -> list[str]:
    """Return the header; if it lacks only a name for the time column, add one.

    R writes times as row names, in a column without a name, and prefixes column names with the series (`ESZ3.Open`).
    """
    if not row or not _TIME.fullmatch(row[0]):
        return header
    if len(row) == len(header) + 1:
        header = ["", *header]
    if len(row) != len(header) or header[0]:
        return header
    series = {name.rpartition(".")[0] for name in header[1:]}
    plain = [name.rpartition(".")[2] for name in header[1:]] if len(series) == 1 else header[1:]
    known = {name for names in NAMES.values() for name in names}
    return ["time", *plain] if known & {name.lower() for name in plain} else header


def _fields(line: str, delimiter: str) -> list[str]:
    return [cell.strip().strip('"') for cell in line.split(delimiter)]


def _has_header(head: Head) -> bool:
    known = {name for names in NAMES.values() for name in names}
    return any(name.removesuffix("_utc") in known for name in head.names)


def sniff(head: Head) -> Dialect:
    """Detect the dialect of a table by its first lines.

    Raises `FileRefused` unless it is of the format the user named.
    """
    wanted = head.format_name
    detectors = {wanted: DETECTORS[wanted]} if wanted else DETECTORS
    for detector in detectors.values():
        dialect = detector(head)
        if dialect is not None:
            return dialect
    if wanted:
        raise head.refuse(f"the file is not in the format {wanted}", "omit --format, or name another format")
    if _has_header(head) and not any(name.removesuffix("_utc") in NAMES["stamp"] for name in head.names):
        raise head.refuse(f"no time column among the columns {', '.join(head.first)[:200]}",
                          "rename the time column to timestamp_utc, or to time with --tz")  # fmt: skip
    if _has_header(head):
        raise head.refuse("the columns match neither trades nor bars",
                          "name them timestamp_utc,price,size or timestamp_utc,open,high,low,close,volume"
                          )  # fmt: skip
    raise head.refuse("the table has no header and an unknown layout",
                      "add --format, or a first line such as timestamp_utc,open,high,low,close,volume; if the "
                      "times are not UTC, use time,open,high,low,close,volume with --tz and --stamp")  # fmt: skip


def _databento(head: Head) -> Dialect | None:
    """Detect Databento's CSV, downloaded or written by its client: `ts_event` and an instrument or record type."""
    if "ts_event" not in head.names or not {"rtype", "publisher_id", "instrument_id"} & head.names.keys():
        return None
    roles = BAR_ROLES if {"open", "close", "volume"} <= head.names.keys() else ("price", "size")
    if not set(roles) <= head.names.keys():
        raise head.refuse("the table has neither trades nor bars", "download trades, tbbo, mbo or ohlcv-1m")
    extra = ("side", "sequence", "flags", "action", "symbol", "instrument_id", "rtype")
    columns = {role: head.names[role] for role in (*roles, *extra) if role in head.names}
    columns["stamp"] = head.names["ts_event"]
    prices = [head.second[columns[role]] for role in roles[:-1] if columns[role] < len(head.second)]
    fixed = all("." not in price for price in prices) and any(len(price) >= 7 for price in prices)
    return _dialect(
        head, "databento-csv", "databento", columns, stamps=_stamps(head, columns), ends=False, fixed=fixed
    )


def _kibot(head: Head) -> Dialect | None:
    """Detect Kibot: no header; US date and time in two columns; New York time; bars stamped at their open."""
    if len(head.first) < 4 or not (_US_DATE.fullmatch(head.first[0]) and _CLOCK.fullmatch(head.first[1])):
        return None
    shapes = {7: ("", "", *BAR_ROLES), 6: ("", "", "price", "", "", "size"), 4: ("", "", "price", "size")}
    shape = shapes.get(len(head.first))
    if shape is None:
        return None
    columns = {role: index for index, role in enumerate(shape) if role} | {"stamp": 0, "clock": 1}
    return _dialect(head, "kibot", "kibot", columns, stamps=TimeFormat.US, zone=NEW_YORK, ends=False)


def _ninjatrader(head: Head) -> Dialect | None:
    """Detect NinjaTrader: no header, semicolons, `yyyyMMdd HHmmss`; UTC; minute bars stamped at their END."""
    if head.delimiter != ";" or not _COMPACT.fullmatch(head.first[0]):
        if head.delimiter == ";" and re.fullmatch(r"\d{8}", head.first[0]):
            raise head.refuse("daily bars are too coarse for 30-minute brackets", "export 1-minute bars")
        return None
    shapes = {6: ("", *BAR_ROLES), 3: ("", "price", "size"), 5: ("", "price", "", "", "size")}
    shape = shapes.get(len(head.first))
    if shape is None:
        return None
    columns = {role: index for index, role in enumerate(shape) if role} | {"stamp": 0}
    return _dialect(
        head, "ninjatrader", "ninjatrader", columns, stamps=TimeFormat.COMPACT, zone="UTC", ends=True
    )


def _tradingview(head: Head) -> Dialect | None:
    """Detect TradingView: `time,open,high,low,close,…,Volume`; Unix time or offset; bars stamped at their open."""
    names = {name: index for index, name in enumerate(head.first)}
    if head.first[0] != "time" or not {"open", "high", "low", "close"} <= names.keys() or not head.second:
        return None
    if "volume" in names or not (_EPOCH.fullmatch(head.second[0]) or _ABSOLUTE.fullmatch(head.second[0])):
        return None
    if "Volume" not in names:
        raise head.refuse(
            "the Volume column is missing", "show Volume on the chart, then export the data again"
        )
    columns = {role: names[role] for role in BAR_ROLES[:4]} | {"volume": names["Volume"], "stamp": 0}
    return _dialect(head, "tradingview", "tradingview", columns, stamps=_stamps(head, columns), ends=False)


def _firstrate(head: Head) -> Dialect | None:
    """Detect FirstRate: ISO timestamp in New York time, then OHLC and volume; bars stamped at their open.

    Without a header this layout could be another vendor's. The file's name must then identify it (`ES_H24_1min.txt`, or
    any name with FirstRate in it), or the user must.
    """
    name = head.path.name.lower()
    named = head.format_name or "firstrate" in name or re.search(r"_(full_)?1min.*\.txt", name) is not None
    rows = head.second if head.format_name and _has_header(head) else head.first
    if not named or len(rows) != 6 or not _ISO.fullmatch(rows[0]):
        return None
    columns = {role: index for index, role in enumerate(("stamp", *BAR_ROLES))}
    return _dialect(head, "firstrate", "firstrate", columns, stamps=TimeFormat.ISO, zone=NEW_YORK, ends=False,
                    header=rows is head.second)  # fmt: skip


def _generic(head: Head) -> Dialect | None:
    """Detect any table with a header that names its columns."""
    columns = generic_columns(head.names, totals=head.totals)
    if columns is None:
        total = next((name for name in head.names if name in TOTAL_NAMES), None)
        if total and generic_columns(head.names, totals=True):
            raise head.refuse(f"the column {total} is a running total of the volume", "add --volume total")
        return None
    utc = head.first[columns["stamp"]].lower().endswith("_utc")
    stamps, zone = _stamps(head, columns), "UTC" if utc else None
    written = _IB.fullmatch(head.second[columns["stamp"]]) if stamps is TimeFormat.IB else None
    named = written["zone"] if written else None
    dialect = _dialect(head, GENERIC, GENERIC, columns, stamps=stamps, zone=named or zone)
    return replace(dialect, says_utc=utc, written_zone=named)


def generic_columns(names: dict[str, int], *, totals: bool = False) -> dict[str, int] | None:
    """Find the columns of a table by their lower-case names; return column numbers by role.

    totals: the volume is a running total, so its column is preferred to one with the size of each trade. Returns None
    if the columns are neither those of trades nor those of bars.
    """
    plain = {name.removesuffix("_utc"): index for name, index in reversed(list(names.items()))}
    known_names = NAMES
    if totals:
        total = (*TOTAL_NAMES, *NAMES["volume"])
        known_names = NAMES | {"volume": total, "size": (*total, *NAMES["size"])}
    found = {
        role: index for role, known in known_names.items() if (index := _first(plain, known)) is not None
    }
    if "stamp" not in found:
        return None
    used_roles = ("stamp", "symbol")
    if set(BAR_ROLES) <= found.keys():
        used_roles = (*used_roles, *BAR_ROLES)
    elif {"price", "size"} <= found.keys():
        used_roles = (*used_roles, "price", "size", "side", "sequence")
    else:
        return None
    columns = {role: found[role] for role in used_roles if role in found}
    if "date" in plain and "time" in plain:
        columns |= {"stamp": plain["date"], "clock": plain["time"]}
    return columns


def _first(plain: dict[str, int], names: tuple[str, ...]) -> int | None:
    return next((plain[name] for name in names if name in plain), None)


def _stamps(head: Head, columns: dict[str, int]) -> TimeFormat:
    """Detect the time format in the first row of a table."""
    index = columns["stamp"]
    if not head.second or index >= len(head.second):
        raise head.refuse("the file has a header and no rows")
    text = head.second[index]
    if "clock" in columns:
        text += " " + head.second[columns["clock"]]
    forms: list[tuple[re.Pattern[str], TimeFormat]] = [
        (_ABSOLUTE, TimeFormat.ISO_ABSOLUTE), (_ISO, TimeFormat.ISO), (_COMPACT, TimeFormat.COMPACT),
        (_IB, TimeFormat.IB), (_EPOCH, TimeFormat.EPOCH), (_DOTTED, TimeFormat.DAY_FIRST),
    ]  # fmt: skip
    if _EITHER.fullmatch(text):
        if head.dates is None:
            raise FileRefused(head.path, f"line {head.line + 1}", f"{text[:10]!r} does not tell day from month",
                              "add --dates day-first or --dates month-first")  # fmt: skip
        return TimeFormat.DAY_FIRST if head.dates == DAY_FIRST else TimeFormat.US
    stamps = next((form for pattern, form in forms if pattern.fullmatch(text)), None)
    if stamps is None:
        raise FileRefused(head.path, f"line {head.line + 1}", f"unknown time format {text[:40]!r}",
                          "write times like 2024-01-02 09:30:00")  # fmt: skip
    return stamps


def _dialect(head: Head, name: str, source: str, columns: dict[str, int], *, stamps: TimeFormat,
             zone: str | None = None, ends: bool | None = None, fixed: bool = False,
             header: bool | None = None) -> Dialect:  # fmt: skip
    has_header = _has_header(head) if header is None else header
    return Dialect(name, source, head.delimiter, head.line if has_header else head.line - 1, len(head.first), columns,
                   stamps, zone, ends, fixed)  # fmt: skip


#: Detectors in the order in which they are tried, most specific first.
DETECTORS: dict[str, Callable[[Head], Dialect | None]] = {
    "databento-csv": _databento,
    "kibot": _kibot,
    "ninjatrader": _ninjatrader,
    "tradingview": _tradingview,
    "firstrate": _firstrate,
    GENERIC: _generic,
}


def apply_options(dialect: Dialect, options: ReadOptions) -> Dialect:
    """Return the dialect with what the user states, such as the time zone, in place of its own values.

    An option that is None leaves the dialect's own value.
    """
    ordered = dialect.stamps in (TimeFormat.US, TimeFormat.DAY_FIRST)
    return replace(
        dialect, zone=options.tz or dialect.zone,
        ends=dialect.ends if options.stamp is None else options.stamp == "close",
        totals=options.volume == TOTAL, comma=options.decimal == "comma", dates=options.dates if ordered else None,
        bad_rows=options.bad_rows or REFUSE,
    )  # fmt: skip
