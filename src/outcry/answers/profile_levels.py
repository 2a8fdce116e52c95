"""Compute levels and rows of a profile from the parts of sessions that it counts."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from itertools import groupby
from typing import Any

from outcry.answers import describe
from outcry.base.sizes import Size, size
from outcry.market.calendar import SessionKind
from outcry.market.composite import Counted, merged
from outcry.market.instruments import Product
from outcry.market.ladder import Ladder
from outcry.market.profile import SessionProfile, initial_balance, profile_of
from outcry.market.profile_kernels import CloseRows, Closes, close_rows, joined_closes
from outcry.market.profile_settings import ProfileSettings, RowPrices, WindowLevels, in_rows, ladder_levels
from outcry.market.session_parts import SessionPart
from outcry.market.units import NANOS_PER_HOUR
from outcry.market.volume_statistics import VolumeSums, volume_nodes
from outcry.wire.answers import IbExtension, PriceRange, Vwap, VwapBand, number
from outcry.wire.profile import Delta, ProfileLevels, ProfileRow

#: Standard deviations for which a VWAP has bands.
VWAP_BANDS = (1, 2, 3)


@dataclass(frozen=True, slots=True)
class ProfilePart:
    """A part of a session in a profile, with brackets of the settings' length. final: whether the session completed.

    deltas: volume delta at each tick of the ladder; None if it is not wanted or unknown. unknown_lots: volume of trades
    without a side. closes: those of its bars, for a method that counts closes only.
    """

    part: SessionPart
    final: bool
    counted: Counted
    deltas: Sequence[int] | None = None
    unknown_lots: int = 0
    closes: Closes | None = None

    def levels(self, settings: ProfileSettings) -> WindowLevels:
        """Return the levels of this part alone."""
        if self.closes is not None:
            return close_rows(self.closes, settings.row_ticks).levels(settings)
        return ladder_levels(self.counted.ladder, settings)

    @property
    def trade_date(self) -> date:
        """Return the trade date of the session."""
        return self.part.session.trade_date

    @property
    def kind(self) -> SessionKind:
        """Return the kind of the session."""
        return self.part.session.kind

    @property
    def has_first_hour(self) -> bool:
        """Return whether the part contains the whole first hour of its session."""
        opened = self.part.session.open_ns
        hour = SessionPart(self.part.session, self.part.session.segments).cut(opened, opened + NANOS_PER_HOUR)
        return hour == self.part.cut(opened, opened + NANOS_PER_HOUR)


@dataclass(frozen=True)
class PartsOfProfile:
    """The parts of sessions that a profile counts, at least one, in order of time, with its product and settings.

    one_day: whether the profile is of a single trade date.
    """

    product: Product
    settings: ProfileSettings
    parts: Sequence[ProfilePart]
    one_day: bool

    @cached_property
    def ladder(self) -> Ladder:
        """The ladder of all parts."""
        return merged([part.counted for part in self.parts]).ladder

    def levels(self, anchored: VolumeSums | None = None) -> ProfileLevels:
        """Return the levels under the settings. anchored: sums of the trades since the anchor of the VWAP."""
        if self._close_rows is not None:
            return self._closes_levels(self._close_rows, anchored)
        product, settings, ladder = self.product, self.settings, self.ladder
        found, exact = ladder_levels(ladder, settings), profile_of(ladder, settings.ib_brackets)
        rows = in_rows(ladder, settings.row_ticks)
        prices, nodes = RowPrices(rows.low_ticks, settings.row_ticks), volume_nodes(rows.volume)
        balance = self._initial_balance()

        def price(ticks: int) -> float:
            return number(ticks * product.tick_e9)

        return ProfileLevels(
            **areas_of(found, settings, product.tick_e9),
            ib_high=price(balance[0]) if balance else None, ib_low=price(balance[1]) if balance else None,
            ib_extensions=self._ib_extensions(balance),
            excess_high=exact.excess_high, excess_low=exact.excess_low,
            upper_tail_ticks=exact.upper_tail_rows, lower_tail_ticks=exact.lower_tail_rows,
            single_prints=_single_prints(exact, product),
            high_volume_nodes=[price(prices.middle(row)) for row in nodes.high],
            low_volume_nodes=[price(prices.middle(row)) for row in nodes.low],
            vwap=vwap(VolumeSums.of(ladder.volume, ladder.low_ticks), product.tick_e9),
            anchored_vwap=vwap(anchored, product.tick_e9) if anchored else None,
            delta=self._delta(),
        )  # fmt: skip

    def rows(self) -> list[ProfileRow]:
        """Return the rows sorted by price, highest first."""
        if self._close_rows is not None:
            return self._closes_rows(self._close_rows)
        row_ticks, product = self.settings.row_ticks, self.product
        rows = in_rows(self.ladder, row_ticks)
        tpos, letters, volumes = rows.tpo_counts(), self._letters(rows), describe.volumes(rows, product)
        deltas = self._row_deltas(rows)
        return [
            ProfileRow(
                price=number((rows.low_ticks + row) * row_ticks * product.tick_e9), tpos=tpos[row],
                letters=letters[row], volume=volumes[row], delta=deltas[row],
            )
            for row in reversed(range(len(tpos)))
        ]  # fmt: skip

    @cached_property
    def _closes(self) -> Closes:
        """The closes of all parts, for a method that counts closes only."""
        return joined_closes([part.closes for part in self.parts if part.closes is not None])

    @cached_property
    def _close_rows(self) -> CloseRows | None:
        """The closes of all parts in rows; None if the method counts ranges."""
        return close_rows(self._closes, self.settings.row_ticks) if self.settings.counts_closes else None

    def _closes_levels(self, rows: CloseRows, anchored: VolumeSums | None) -> ProfileLevels:
        """Return the levels of closes. They have no brackets, so no initial balance, tails and single prints."""
        settings, tick_e9, nodes = self.settings, self.product.tick_e9, volume_nodes(rows.volume)
        sums = VolumeSums.of_trades(self._closes.price_ticks.tolist(), self._closes.size_lots.tolist())
        return ProfileLevels(
            **areas_of(rows.levels(settings), settings, tick_e9),
            ib_high=None, ib_low=None, ib_extensions=[], excess_high=False, excess_low=False,
            upper_tail_ticks=0, lower_tail_ticks=0, single_prints=[],
            high_volume_nodes=[number(rows.prices.middle(row) * tick_e9) for row in nodes.high],
            low_volume_nodes=[number(rows.prices.middle(row) * tick_e9) for row in nodes.low],
            vwap=vwap(sums, tick_e9), anchored_vwap=vwap(anchored, tick_e9) if anchored else None,
        )  # fmt: skip

    def _closes_rows(self, rows: CloseRows) -> list[ProfileRow]:
        return [
            ProfileRow(
                price=number(rows.prices.low(row) * self.product.tick_e9), tpos=rows.tpos[row], letters="",
                volume=size(rows.volume[row], self.product.size_step_e9),
            )
            for row in reversed(range(len(rows.tpos)))
        ]  # fmt: skip

    def _initial_balance(self) -> tuple[int, int] | None:
        """Return high and low of the only regular session's first hour; None without the whole hour (rules §3.1)."""
        regular = [part for part in self.parts if part.kind is SessionKind.RTH]
        if len(regular) != 1 or not self.one_day or not regular[0].has_first_hour:
            return None
        return initial_balance(regular[0].counted.ladder, self.settings.ib_brackets)

    def _ib_extensions(self, balance: tuple[int, int] | None) -> list[IbExtension]:
        """Return the extensions of an initial balance; the regular session must have reached them, not the night."""
        if balance is None:
            return []
        regular = next(part for part in self.parts if part.kind is SessionKind.RTH).counted.ladder
        return describe.ib_extensions(balance, regular.high_ticks, regular.low_ticks, self.product.tick_e9)

    def _delta(self) -> Delta | None:
        deltas = [part.deltas for part in self.parts if part.deltas is not None]
        if len(deltas) < len(self.parts):
            return None
        unknown = sum(part.unknown_lots for part in self.parts)
        step_e9 = self.product.size_step_e9
        return Delta(total=size(sum(map(sum, deltas)), step_e9), unknown_volume=size(unknown, step_e9))

    def _row_deltas(self, rows: Ladder) -> Sequence[Size | None]:
        """Return the volume delta at each row; None everywhere if that of a session is unknown."""
        found = [0] * len(rows.volume)
        for part in self.parts:
            if part.deltas is None:
                return [None] * len(rows.volume)
            for tick, delta in enumerate(part.deltas, part.counted.ladder.low_ticks):
                found[tick // self.settings.row_ticks - rows.low_ticks] += delta
        return [size(delta, self.product.size_step_e9) for delta in found]

    def _letters(self, rows: Ladder) -> list[str]:
        """Return the letters at each row: those of each day in order, with a space between days."""
        marks: list[list[str]] = [[] for _ in rows.volume]
        for _, parts in groupby(self.parts, key=lambda part: part.trade_date):
            day = in_rows(merged([part.counted for part in parts]).ladder, self.settings.row_ticks)
            for row, text in enumerate(day.letters(), day.low_ticks - rows.low_ticks):
                if text:
                    marks[row].append(text)
        return [" ".join(of_days) for of_days in marks]


def areas_of(found: WindowLevels, settings: ProfileSettings, tick_e9: int) -> dict[str, Any]:
    """Return the fields of `ProfileLevels` that rows have under any method, with the prices that stand for rows."""
    scale, row_ticks = settings.scale, settings.row_ticks

    def shown(half_ticks: int) -> float:
        return number(half_ticks * tick_e9 // 2)

    return {
        "poc": shown(scale.poc(found.poc // row_ticks)),
        "val": shown(scale.val(found.val // row_ticks)),
        "vah": shown(scale.vah(found.vah // row_ticks)),
        "vpoc": shown(scale.poc(found.vpoc // row_ticks)),
        "volume_val": shown(scale.val(found.volume_val // row_ticks)),
        "volume_vah": shown(scale.vah(found.volume_vah // row_ticks)),
        "poc_candidates": [shown(scale.poc(ticks // row_ticks)) for ticks in found.poc_candidates],
        "high": number(found.high * tick_e9),
        "low": number(found.low * tick_e9),
        "open_price": number(found.open * tick_e9),
        "close_price": number(found.close * tick_e9),
    }


def vwap(sums: VolumeSums, tick_e9: int) -> Vwap | None:
    """Return the VWAP with its bands; None without volume."""
    middle, deviation = sums.vwap_e9(tick_e9), sums.deviation_e9(tick_e9)
    if middle is None or deviation is None:
        return None
    return Vwap(
        price=number(middle), deviation=number(deviation),
        bands=[
            VwapBand(deviations=n, upper=number(middle + n * deviation), lower=number(middle - n * deviation))
            for n in VWAP_BANDS
        ],
    )  # fmt: skip


def _single_prints(exact: SessionProfile, product: Product) -> list[PriceRange]:
    return [
        PriceRange(low=number(low * product.tick_e9), high=number(high * product.tick_e9))
        for low, high in exact.single_prints
    ]
