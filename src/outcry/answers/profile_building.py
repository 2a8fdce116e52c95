"""Build the answer of `GET /api/profile` from the sessions that it counts."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from itertools import groupby
from typing import Any

from outcry.answers import describe
from outcry.answers.session_view import SessionView
from outcry.base.sizes import Size, size
from outcry.market.calendar import SessionKind
from outcry.market.composite import Counted, balances, merged
from outcry.market.instruments import Product
from outcry.market.ladder import Ladder
from outcry.market.profile import SessionProfile, initial_balance, profile_of
from outcry.market.profile_kernels import Closes, close_rows, joined_closes
from outcry.market.profile_settings import ProfileSettings, RowPrices, WindowLevels, in_rows, ladder_levels
from outcry.market.volume_statistics import VolumeSums, volume_nodes
from outcry.wire.answers import IbExtension, PriceRange, number
from outcry.wire.profile import (
    AbsentSession,
    Balance,
    Delta,
    Period,
    ProfileAnswer,
    ProfileLevels,
    ProfileRow,
    ProfileSession,
    ProfileWindow,
    Vwap,
    VwapBand,
)

#: Standard deviations for which a VWAP has bands.
VWAP_BANDS = (1, 2, 3)


@dataclass(frozen=True, slots=True)
class ProfilePart:
    """One session of a profile, with brackets of the settings' length. final: whether it has completed.

    deltas: volume delta at each tick of the ladder; None if it is not wanted or unknown. unknown_lots: volume of trades
    without a side. closes: those of its bars, for a method that counts closes only.
    """

    trade_date: date
    kind: SessionKind
    final: bool
    counted: Counted
    deltas: Sequence[int] | None = None
    unknown_lots: int = 0
    closes: Closes | None = None

    def levels(self, settings: ProfileSettings) -> WindowLevels:
        """Return the levels of this session alone."""
        if self.closes is not None:
            return close_rows(self.closes, settings.row_ticks).levels(settings)
        return ladder_levels(self.counted.ladder, settings)


@dataclass(frozen=True, slots=True)
class ProfileSelection:
    """The sessions of a profile, oldest first, at least one; those that are missing; and what the request asked for.

    view: the newest session. first, last: trade dates. develops: whether later trades can change the profile.
    anchored: sums of the trades since the anchor of the VWAP, if there is one.
    """

    view: SessionView
    settings: ProfileSettings
    parts: Sequence[ProfilePart]
    first: date
    last: date
    develops: bool
    period: Period | None = None
    missing: Sequence[tuple[date, SessionKind]] = ()
    anchored: VolumeSums | None = None


def profile_answer(view: SessionView) -> ProfileAnswer:
    """Return the answer of `GET /api/profile` for one session under the default settings."""
    hours = "overnight" if view.kind is SessionKind.ETH else "rth"
    part = ProfilePart(view.trade_date, view.kind, view.live is None, Counted(view.ladder, ()))
    return chosen_profile(
        ProfileSelection(
            view,
            ProfileSettings(hours=hours),
            [part],
            view.trade_date,
            view.trade_date,
            develops=not part.final,
        )
    )


def chosen_profile(selection: ProfileSelection) -> ProfileAnswer:
    """Return the answer of `GET /api/profile` for any sessions and settings."""
    if selection.settings.counts_closes:
        return _closes_profile(selection)
    view, settings, product = selection.view, selection.settings, selection.view.product
    ladder = merged([part.counted for part in selection.parts]).ladder
    return ProfileAnswer(
        symbol=product.root, tick_size=number(product.tick_e9), levels=describe.session(view),
        method=describe.method(ladder, settings), window=_window(selection), develops=selection.develops,
        profile=_levels(selection, ladder), rows=_rows(selection, ladder),
    )  # fmt: skip


def _closes_profile(selection: ProfileSelection) -> ProfileAnswer:
    """Return the answer for a method that counts closes only. All parts must have closes.

    Closes have no brackets, so there are no letters, initial balance, tails and single prints.
    """
    view, settings, product = selection.view, selection.settings, selection.view.product
    closes = joined_closes([part.closes for part in selection.parts if part.closes is not None])
    rows = close_rows(closes, settings.row_ticks)
    sums = VolumeSums.of_trades(closes.price_ticks.tolist(), closes.size_lots.tolist())
    nodes = volume_nodes(rows.volume)
    ladder = merged([part.counted for part in selection.parts]).ladder
    return ProfileAnswer(
        symbol=product.root, tick_size=number(product.tick_e9), levels=describe.session(view),
        method=describe.method(ladder, settings), window=_window(selection), develops=selection.develops,
        profile=ProfileLevels(
            **_areas(rows.levels(settings), settings, product.tick_e9),
            ib_high=None, ib_low=None, ib_extensions=[], excess_high=False, excess_low=False,
            upper_tail_ticks=0, lower_tail_ticks=0, single_prints=[],
            high_volume_nodes=[number(rows.prices.middle(row) * product.tick_e9) for row in nodes.high],
            low_volume_nodes=[number(rows.prices.middle(row) * product.tick_e9) for row in nodes.low],
            vwap=_vwap(sums, product.tick_e9),
            anchored_vwap=_vwap(selection.anchored, product.tick_e9) if selection.anchored else None,
        ),
        rows=[
            ProfileRow(
                price=number(rows.prices.low(row) * product.tick_e9), tpos=rows.tpos[row], letters="",
                volume=size(rows.volume[row], product.size_step_e9),
            )
            for row in reversed(range(len(rows.tpos)))
        ],
    )  # fmt: skip


def _areas(found: WindowLevels, settings: ProfileSettings, tick_e9: int) -> dict[str, Any]:
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


def _window(selection: ProfileSelection) -> ProfileWindow:
    tick_e9, settings = selection.view.product.tick_e9, selection.settings
    sessions: list[ProfileSession] = []
    areas: list[tuple[int, int]] = []
    days: list[date] = []
    for part in selection.parts:
        found = part.levels(settings)
        shown = _areas(found, settings, tick_e9)
        sessions.append(
            ProfileSession(
                date=str(part.trade_date), session=part.kind.value, final=part.final,
                poc=shown["poc"], vah=shown["vah"], val=shown["val"],
            )
        )  # fmt: skip
        if part.kind is SessionKind.RTH:
            areas.append((found.val, found.vah))
            days.append(part.trade_date)
    return ProfileWindow(
        session=settings.hours, period=selection.period, from_=str(selection.first), to=str(selection.last),
        contract=selection.view.contract, sessions=sessions,
        missing=[AbsentSession(date=str(day), session=kind.value) for day, kind in selection.missing],
        balances=[
            Balance(from_=str(days[first]), to=str(days[last]), sessions=last - first + 1)
            for first, last in balances(areas)
        ],
    )  # fmt: skip


def _levels(selection: ProfileSelection, ladder: Ladder) -> ProfileLevels:
    product, settings = selection.view.product, selection.settings
    found, exact = ladder_levels(ladder, settings), profile_of(ladder, settings.ib_brackets)
    rows = in_rows(ladder, settings.row_ticks)
    prices, nodes = RowPrices(rows.low_ticks, settings.row_ticks), volume_nodes(rows.volume)
    balance = _initial_balance(selection)

    def price(ticks: int) -> float:
        return number(ticks * product.tick_e9)

    return ProfileLevels(
        **_areas(found, settings, product.tick_e9),
        ib_high=price(balance[0]) if balance else None, ib_low=price(balance[1]) if balance else None,
        ib_extensions=_ib_extensions(selection, balance, product),
        excess_high=exact.upper_tail_rows >= 2 and not exact.upper_tail_provisional,
        excess_low=exact.lower_tail_rows >= 2 and not exact.lower_tail_provisional,
        upper_tail_ticks=exact.upper_tail_rows, lower_tail_ticks=exact.lower_tail_rows,
        single_prints=_single_prints(exact, product),
        high_volume_nodes=[price(prices.middle(row)) for row in nodes.high],
        low_volume_nodes=[price(prices.middle(row)) for row in nodes.low],
        vwap=_vwap(VolumeSums.of(ladder.volume, ladder.low_ticks), product.tick_e9),
        anchored_vwap=_vwap(selection.anchored, product.tick_e9) if selection.anchored else None,
        delta=_delta(selection),
    )  # fmt: skip


def _single_prints(exact: SessionProfile, product: Product) -> list[PriceRange]:
    return [
        PriceRange(low=number(low * product.tick_e9), high=number(high * product.tick_e9))
        for low, high in exact.single_prints
    ]


def _initial_balance(selection: ProfileSelection) -> tuple[int, int] | None:
    """Return the first hour's high and low of the only regular session; None for several or none (rules §3.1)."""
    regular = [part for part in selection.parts if part.kind is SessionKind.RTH]
    if len(regular) != 1 or selection.first != selection.last:
        return None
    return initial_balance(regular[0].counted.ladder, selection.settings.ib_brackets)


def _ib_extensions(
    selection: ProfileSelection, balance: tuple[int, int] | None, product: Product
) -> list[IbExtension]:
    """Return the extensions of an initial balance; the regular session must have reached them, not the night."""
    if balance is None:
        return []
    regular = next(part for part in selection.parts if part.kind is SessionKind.RTH).counted.ladder
    return describe.ib_extensions(balance, regular.high_ticks, regular.low_ticks, product.tick_e9)


def _delta(selection: ProfileSelection) -> Delta | None:
    deltas = [part.deltas for part in selection.parts if part.deltas is not None]
    if len(deltas) < len(selection.parts):
        return None
    unknown = sum(part.unknown_lots for part in selection.parts)
    step_e9 = selection.view.product.size_step_e9
    return Delta(total=size(sum(map(sum, deltas)), step_e9), unknown_volume=size(unknown, step_e9))


def _row_deltas(selection: ProfileSelection, rows: Ladder) -> Sequence[Size | None]:
    """Return the volume delta at each row; None everywhere if that of a session is unknown."""
    found = [0] * len(rows.volume)
    for part in selection.parts:
        if part.deltas is None:
            return [None] * len(rows.volume)
        for tick, delta in enumerate(part.deltas, part.counted.ladder.low_ticks):
            found[tick // selection.settings.row_ticks - rows.low_ticks] += delta
    return [size(delta, selection.view.product.size_step_e9) for delta in found]


def _vwap(sums: VolumeSums, tick_e9: int) -> Vwap | None:
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


def _rows(selection: ProfileSelection, ladder: Ladder) -> list[ProfileRow]:
    """Return the rows sorted by price, highest first."""
    row_ticks, product = selection.settings.row_ticks, selection.view.product
    rows = in_rows(ladder, row_ticks)
    tpos, letters, volumes = rows.tpo_counts(), _letters(selection, rows), describe.volumes(rows, product)
    deltas = _row_deltas(selection, rows)
    return [
        ProfileRow(
            price=number((rows.low_ticks + row) * row_ticks * product.tick_e9), tpos=tpos[row], letters=letters[row],
            volume=volumes[row], delta=deltas[row],
        )
        for row in reversed(range(len(tpos)))
    ]  # fmt: skip


def _letters(selection: ProfileSelection, rows: Ladder) -> list[str]:
    """Return the letters at each row: those of each day in order, with a space between days."""
    marks: list[list[str]] = [[] for _ in rows.volume]
    for _, parts in groupby(selection.parts, key=lambda part: part.trade_date):
        day = in_rows(merged([part.counted for part in parts]).ladder, selection.settings.row_ticks)
        for row, text in enumerate(day.letters(), day.low_ticks - rows.low_ticks):
            if text:
                marks[row].append(text)
    return [" ".join(of_days) for of_days in marks]
