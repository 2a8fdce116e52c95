"""Find the contract that each instrument id of a DBN file means at a time.

The header, a mapping message, the only symbol of the file, or `--contract` maps an instrument id to a contract.
Otherwise the file is refused with `FileRefused`; the contract is never guessed.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outcry.market.instruments import Contract
from outcry.recordings.file_model import FileRefused
from outcry.recordings.formats.contract_filter import ContractFilter
from outcry.recordings.formats.contract_names import CONTINUOUS, ContractNames
from outcry.recordings.formats.dbn_header import Header

_FOREVER = (0, (1 << 63) - 1)
Records = NDArray[Any]


@dataclass(frozen=True, slots=True)
class _Span:
    start_ns: int
    end_ns: int
    contract: Contract | str


class InstrumentMap:
    """The contract that each instrument id of a file means, which can change over time."""

    def __init__(self, path: Path, header: Header, names: ContractNames, selection: ContractFilter) -> None:
        self._path, self._header, self._names, self._selection = path, header, names, selection
        self._spans: dict[int, list[_Span]] = {}
        self._any_number: list[_Span] = []
        self._unnamed: set[int] = set()
        for mapping in sorted(header.mappings, key=lambda one: (one.start, one.asked)):
            if header.given_by_number:
                number, symbol = mapping.given, mapping.asked
            else:
                number, symbol = mapping.asked, mapping.given
            span = _Span(
                _midnight(mapping.start), _midnight(mapping.end), names.contract(symbol, mapping.start)
            )
            if number.isdecimal():
                self._spans.setdefault(int(number), []).append(span)
            elif not header.given_by_number and len(header.symbols) == 1:
                self._any_number.append(span)
        if not self._spans and not self._any_number and len(header.symbols) == 1:
            symbol_span = _Span(*_FOREVER, names.contract(header.symbols[0], header.start))
            self._any_number = [symbol_span]

    def learn(self, number: int, symbols: tuple[str, str], at_ns: int) -> None:
        """Apply a mapping message of the file: the instrument id `number` now means the contract in `symbols`.

        If both symbols name a contract, the first one counts. at_ns: time of the message.
        """
        near = datetime.fromtimestamp(at_ns // 1_000_000_000, UTC).date()
        named = [self._names.contract(symbol, near) for symbol in symbols if symbol]
        contract = next((c for c in named if isinstance(c, Contract)), named[0] if named else CONTINUOUS)
        self._spans[number] = [_Span(*_FOREVER, contract)]

    def groups(self, records: Records, at: NDArray[Any]) -> Iterator[tuple[Contract | str, Records]]:
        """Split records into groups of one contract each, in order of time.

        For records to skip, the group has the reason, a string, instead of a contract.
        """
        numbers = records["instrument_id"]
        first = int(numbers[0])
        if (numbers == first).all():
            yield from self._split(first, records, at)
            return
        order = np.argsort(numbers, kind="stable")
        cuts = np.flatnonzero(np.diff(numbers[order])) + 1
        for part in np.split(order, cuts):
            yield from self._split(int(numbers[part[0]]), records[part], at[part])

    def _split(
        self, number: int, records: Records, at: NDArray[Any]
    ) -> Iterator[tuple[Contract | str, Records]]:
        spans = self._spans.get(number) or self._any_number
        if len({span.contract for span in spans}) == 1:
            yield self._named(spans[0].contract, number, at), records
            return
        rest = np.ones(len(records), dtype=bool)
        for span in spans:
            inside = (at >= span.start_ns) & (at < span.end_ns) & rest
            if inside.any():
                rest &= ~inside
                yield self._named(span.contract, number, at), records[inside]
        if rest.any():
            yield self._named(None, number, at), records[rest]

    def _named(self, contract: Contract | str | None, number: int, at: NDArray[Any]) -> Contract | str:
        """Return `contract` if the file names it; otherwise the contract that `--contract` names.

        Raises `FileRefused` without that option, or if several instruments have no contract.
        """
        if contract not in (None, CONTINUOUS):
            return contract  # type: ignore[return-value]
        near = datetime.fromtimestamp(int(at[0]) // 1_000_000_000, UTC).date()
        given = self._selection.given(near)
        self._unnamed.add(number)
        if given is None:
            what = f"instrument {number} is mapped to " + ("a continuous symbol" if contract else "no symbol")
            raise FileRefused(self._path, "header", what,
                              "add --contract, or download the file with raw symbols, for example ESZ3")  # fmt: skip
        if len(self._unnamed) > 1:
            raise FileRefused(self._path, "header",
                              f"instruments {sorted(self._unnamed)} have no symbols, but --contract names one",
                              "download the file with raw symbols, for example ESZ3")  # fmt: skip
        return given


def _midnight(day: date) -> int:
    return int(datetime.combine(day, time(), UTC).timestamp()) * 1_000_000_000
