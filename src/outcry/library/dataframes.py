"""Find trades or bars in the user's dataframe or arrays: pandas, Polars, PyArrow, numpy, or a mapping of arrays.

Columns have the same names as in imported files (`recordings.formats.dialects.NAMES`), in any case. No dataframe
library is imported.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import tzinfo
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from outcry.library.errors import InvalidInput
from outcry.library.times import UTC_NS_NAMES, Column, Ints, Times, inside, times_of
from outcry.market.units import PRICE_SCALE
from outcry.recordings.formats.dialects import BAR_ROLES, NAMES

TRADES, BARS = ("ts", "price", "size"), ("ts", *BAR_ROLES)
_EXPECTED = (
    f"Give a path, or a mapping or dataframe (pandas, Polars, PyArrow, numpy) with {', '.join(TRADES)} or "
    f"{', '.join(BARS)}."
)
#: Columns that only Databento's tables have. Their integer prices are in units of 10⁻⁹.
_DATABENTO = {"rtype", "publisher_id", "instrument_id"}

#: The rows of the caller's data that an array was taken from.
Places = NDArray[np.intp] | range


class Table(NamedTuple):
    """Trades or bars as arrays of equal length.

    at_ns: times (ns UTC). columns: `price`, `size` and maybe `side`, or `open` to `volume`. names: the user's name of
    each of these columns but `side`. contracts: a column that names each row's contract. traded: the rows that are
    trades; None if all are. fixed: prices are integers in units of 10⁻⁹. origin: name of the file that the rows come
    from. size_step_e9: the smallest size (10⁻⁹). in_steps: sizes are whole numbers of such steps already.
    """

    at_ns: Ints
    columns: dict[str, Column]
    names: dict[str, str]
    contracts: Column | None = None
    traded: NDArray[np.bool_] | None = None
    fixed: bool = False
    origin: str | None = None
    size_step_e9: int = PRICE_SCALE
    in_steps: bool = False

    @property
    def bars(self) -> bool:
        """Return whether the rows are bars."""
        return "price" not in self.columns


class Part(NamedTuple):
    """Consecutive rows of the caller's data inside the window: times, other columns and row numbers (`places`)."""

    at_ns: Ints
    columns: dict[str, Column]
    places: Places


def parts_inside(table: Table, segments: Sequence[tuple[int, int]], rows: int) -> Iterator[Part]:
    """Yield the rows inside the window, in batches made from `rows` consecutive rows of the caller's data.

    Batches without rows inside are skipped. Columns are views if all rows of a batch are inside one trading segment.
    Raises `InvalidInput` for rows of several contracts.
    """
    contract: Any = None
    for start in range(0, len(table.at_ns), rows):
        part = slice(start, start + rows)
        times = table.at_ns[part]
        low_ns, high_ns = times.min(), times.max()
        places: Places = range(start, start + len(times))
        chosen: NDArray[np.bool_] | slice = slice(None)
        if table.traded is not None or not any(a <= low_ns and high_ns < b for a, b in segments):
            chosen = inside(times, segments)
            if table.traded is not None:
                chosen &= table.traded[part]
            if not chosen.any():
                continue
            places = np.flatnonzero(chosen) + start
        if table.contracts is not None:
            contract = _same_contract(table.contracts[part][chosen], contract, places)
        yield Part(
            times[chosen], {name: column[part][chosen] for name, column in table.columns.items()}, places
        )


def _same_contract(contracts: Column, first: Any, places: Places) -> Any:
    """Return the contract of all rows so far. Raises `InvalidInput` at a row of another one."""
    expected = contracts[0] if first is None else first
    other = contracts != expected
    if other.any():
        row = int(other.argmax())
        raise InvalidInput(
            f"the contract is {contracts[row]}, but {expected} in the rows before",
            "Keep the rows of one contract: a profile of two would mix their prices.", row=int(places[row]),
        )  # fmt: skip
    return expected


def table_of(data: Any, zone: tzinfo | None) -> Table:
    """Return the trades or bars of the user's data. zone: the time zone of times that have none.

    Raises `InvalidInput` for data that is not a table, has no rows or lacks a column.
    """
    found, names = _opened(data)
    if not names:
        raise InvalidInput("data is empty", _EXPECTED)
    lower = {name.lower(): name for name in reversed(names)} | {n: n for n in names if n == n.lower()}
    plain = {name.removesuffix("_utc"): own for name, own in reversed(lower.items())}
    chosen = _roles(plain, names)
    stamp = _stamp_name(plain, found)
    databento = "ts_event" in lower and bool(lower.keys() & _DATABENTO)
    more = {
        "symbol": _first(plain, NAMES["symbol"]), "action": lower.get("action") if databento else None,
        "side": _first(plain, NAMES["side"]) if "price" in chosen else None,
    }  # fmt: skip
    wanted = {role: name for role, name in more.items() if name} | chosen
    table = _selected(found, list(dict.fromkeys([*wanted.values(), *([stamp] if stamp else [])])))
    columns = {role: _array(table[name]) for role, name in wanted.items()}
    times = _times(table, stamp)
    _check_shapes({times.name: times.values} | {wanted[role]: column for role, column in columns.items()})
    action = columns.pop("action", None)
    return Table(
        times_of(times, zone),
        {role: columns[role] for role in (*chosen, "side") if role in columns},
        chosen,
        contracts=columns.get("symbol"),
        traded=None if action is None else np.isin(action.astype("U1"), ["T"]),
        fixed=databento and all(columns[role].dtype.kind in "iu" for role in chosen if role not in ("size", "volume")),
    )  # fmt: skip


def _opened(data: Any) -> tuple[Any, list[str]]:
    """Return the user's data as an object whose columns can be selected, and their names."""
    if isinstance(data, np.ndarray):
        if data.dtype.names is None:
            raise InvalidInput(
                f"data is a numpy array of shape {data.shape} without named columns",
                'Give a structured array, or a mapping such as {"ts": a[:, 0], "price": a[:, 1], "size": a[:, 2]}.',
            )
        return data, list(data.dtype.names)
    if isinstance(data, Mapping):
        names: Any = data.keys()
    elif hasattr(data, "collect_schema") and hasattr(data, "collect"):  # a lazy frame of Polars
        names = data.collect_schema().names()
    elif hasattr(data, "to_table") and hasattr(data, "schema"):  # a dataset of PyArrow
        names = data.schema.names
    elif hasattr(data, "__len__") and hasattr(data, "columns"):
        names = getattr(data, "column_names", data.columns)
    else:
        raise InvalidInput(
            "data is None" if data is None else f"data is of type {type(data).__name__}", _EXPECTED
        )
    return data, [name for name in names if isinstance(name, str)]


def _selected(data: Any, names: list[str]) -> Any:
    """Return the data with at least the named columns in memory; a lazy frame or dataset reads only these."""
    if hasattr(data, "collect_schema") and hasattr(data, "collect"):
        return data.select(names).collect()
    if hasattr(data, "to_table") and hasattr(data, "schema"):
        return data.to_table(columns=names)
    return data


def _first(plain: Mapping[str, str], names: Sequence[str]) -> str | None:
    return next((plain[name] for name in names if name in plain), None)


def _roles(plain: Mapping[str, str], names: list[str]) -> dict[str, str]:
    """Return the user's names of the columns of trades or bars, by role."""
    bars = {role: name for role in BAR_ROLES if (name := _first(plain, NAMES[role]))}
    price, size = _first(plain, NAMES["price"]), _first(plain, NAMES["size"])
    whole_bars = len(bars) == len(BAR_ROLES)
    if price and size and not (whole_bars and size == bars["volume"]):
        return {"price": price, "size": size}
    if whole_bars:
        return bars
    missing = "size" if price else next(role for role in BAR_ROLES if role not in bars)
    raise InvalidInput(
        f"data has no column {missing!r}, only {', '.join(names)[:200]}",
        f"Trades need {', '.join(TRADES)}; bars need {', '.join(BARS)}.",
    )


def _stamp_name(plain: Mapping[str, str], data: Any) -> str | None:
    """Return the user's name of the column of times; None if the times are the index."""
    if name := _first(plain, UTC_NS_NAMES):
        return name
    index = getattr(data, "index", None)
    if getattr(getattr(index, "dtype", None), "kind", "") == "M":
        return None
    name = _first(plain, NAMES["stamp"])
    if name is not None:
        if "date" in plain and "time" in plain and name in (plain["date"], plain["time"]):
            raise InvalidInput(
                "data has its times in two columns, date and time", "Join them into one column, timestamp."
            )
        return name
    if str(getattr(index, "name", None)).lower().removesuffix("_utc") in NAMES["stamp"]:
        return None
    raise InvalidInput(
        "data has no column 'ts'",
        f"Name the times ts, timestamp or datetime, or make them the index. {_EXPECTED}",
    )


def _times(table: Any, stamp: str | None) -> Times:
    column = table.index if stamp is None else table[stamp]
    name = (column.name or "index") if stamp is None else stamp
    kind = getattr(column, "dtype", None) or getattr(column, "type", None)
    zone = getattr(kind, "tz", None) or getattr(kind, "time_zone", None)
    return Times(str(name), _array(column), zone is not None)


def _array(column: Any) -> Column:
    if getattr(getattr(column, "dtype", None), "tz", None) is not None:
        return np.asarray(
            column, dtype="datetime64[ns]"
        )  # pandas would convert a column with a zone to objects
    return np.asarray(column.to_numpy() if hasattr(column, "to_numpy") else column)


def _check_shapes(columns: dict[str, Column]) -> None:
    odd = [name for name, column in columns.items() if column.ndim != 1]
    if odd:
        raise InvalidInput(
            f"data has several columns {odd[0]!r}, or several values per row in it", "Keep one of each."
        )
    if len({len(column) for column in columns.values()}) != 1:
        lengths = ", ".join(f"{name} {len(column)}" for name, column in columns.items())
        raise InvalidInput(
            f"The columns of data have different lengths ({lengths})", "Give one value per row in each."
        )
    if not len(next(iter(columns.values()))):
        raise InvalidInput("data is empty", _EXPECTED)
