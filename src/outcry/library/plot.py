"""Plot a market profile: TPO letters at their prices, value area, POC, initial balance and volume.

The plot shows the profile's own numbers with the decimals of the tick; it derives and rounds nothing. matplotlib is an
extra `plot`.
"""

from typing import Any

from outcry.base.extras import MissingExtra
from outcry.library.levels import ProfileLevels, Row
from outcry.library.titles import method_of, price_of, tick_e9_of, title_of
from outcry.market.units import PRICE_SCALE

INK, MUTED, VALUE, POC, BALANCE, VOLUME = "#1d2733", "#5c6773", "#dbe8f8", "#c2410c", "#2b8a3e", "#b8c7d9"
VPOC = "#5f3dc4"
_VOLUME_WIDTH = 14  # of the volume histogram, in letters
_LABEL_WIDTH = 12  # of the names of levels, in letters
_MOST_LABELS = 12  # on the price axis
_LINE_INCHES = 0.14  # height of a name of a level
_MAX_DRAWN_ROWS = 160  # more rows than this are drawn as groups: letters would be smaller than a pixel


def draw(profile: ProfileLevels, ax: Any = None) -> Any:
    """Draw into matplotlib axes (None creates new ones) and return them. Raises `MissingExtra` without matplotlib."""
    try:
        import matplotlib.pyplot as plt  # noqa: PLC0415
    except ImportError as problem:
        raise MissingExtra("plot()", "plot") from problem
    group = -(-len(profile.rows) // _MAX_DRAWN_ROWS)
    widest = max(row.tpos for row in profile.rows)
    if ax is None:
        height = min(22.0, max(4.0, 0.13 * len(profile.rows) / group + 1.0))
        width = max(5.6, 3.2 + 0.11 * (widest + _VOLUME_WIDTH))
        _, ax = plt.subplots(figsize=(width, height), layout="constrained")
    half = profile.tick_size / 2
    ax.axhspan(profile.val - half, profile.vah + half, color=VALUE, zorder=0, linewidth=0, label="Value area")
    _volume(profile, ax, widest)
    _letters(profile, ax, group)
    _levels(profile, ax, widest)
    ax.set_xlim(-2.5, widest + _VOLUME_WIDTH + _LABEL_WIDTH)
    ax.set_ylim(profile.low - 3 * profile.tick_size, profile.high + 3 * profile.tick_size)
    ax.set_xticks([])
    _axis(profile, ax)
    for side in ("top", "right", "bottom"):
        ax.spines[side].set_visible(False)
    ax.set_title(f"{title_of(profile)}\n{method_of(profile)}", loc="left", fontsize=9)
    ax.legend(
        loc="upper center", bbox_to_anchor=(0.5, 0.0), ncols=3, fontsize=8, frameon=False, borderaxespad=0.2
    )
    return ax


def _axis(profile: ProfileLevels, ax: Any) -> None:
    """Label the price axis with tradable prices, spaced by a round number of ticks."""
    low, high = (round(price / profile.tick_size) for price in (profile.low, profile.high))
    step = next(
        ticks
        for power in range(19)
        for ticks in (10**power, 2 * 10**power, 5 * 10**power)
        if (high - low) // ticks < _MOST_LABELS
    )
    labelled = range(-(-low // step) * step, high + 1, step)
    prices = [ticks * tick_e9_of(profile) / PRICE_SCALE for ticks in labelled]
    ax.set_yticks(prices, [price_of(profile, price) for price in prices])


def _letters(profile: ProfileLevels, ax: Any, group: int) -> None:
    """Draw one letter per bracket and row. Rows are grouped by ticks if there are too many to read."""
    size = 7.5 if len(profile.rows) / group <= 110 else 5.5
    for start in range(0, len(profile.rows), group):
        rows = profile.rows[start : start + group]
        marks = dict.fromkeys(mark for row in reversed(rows) for mark in row.letters)
        ink = POC if any(_has(profile, row, profile.poc) for row in rows) else INK
        price = sum(row.price for row in rows) / len(rows) + _to_middle(profile)
        for column, mark in enumerate(sorted(marks, key=_order) if group > 1 else rows[0].letters):
            ax.text(
                column,
                price,
                mark,
                fontsize=size,
                family="monospace",
                ha="center",
                va="center",
                color=ink,
                zorder=3,
            )


def _has(profile: ProfileLevels, row: Row, price: float) -> bool:
    """Return whether a price is one of the ticks of a row."""
    return 0 <= round((price - row.price) / profile.tick_size) < profile.row_ticks


def _to_middle(profile: ProfileLevels) -> float:
    """Return the distance from the lowest tick of a row to its middle."""
    return profile.tick_size * (profile.row_ticks - 1) / 2


def _order(mark: str) -> tuple[bool, str]:
    return not mark.isupper(), mark


def _volume(profile: ProfileLevels, ax: Any, widest: int) -> None:
    most = max((row.volume for row in profile.rows), default=0) or 1
    to_middle, height = _to_middle(profile), profile.tick_size * profile.row_ticks * 0.9
    ax.barh(
        [row.price + to_middle for row in profile.rows], [row.volume / most * _VOLUME_WIDTH for row in profile.rows],
        height=height, left=widest + 1.5, color=VOLUME, zorder=1, linewidth=0, label="Volume",
    )  # fmt: skip


def _levels(profile: ProfileLevels, ax: Any, widest: int) -> None:
    """Draw the levels as lines with their names and prices, and the initial balance as a bar on the left."""
    edge = widest + _VOLUME_WIDTH + 2.5
    marks = [
        (profile.poc, "POC", POC, "-", 1.4, "POC"), (profile.vah, "VAH", MUTED, "--", 1.0, "VAH, VAL"),
        (profile.val, "VAL", MUTED, "--", 1.0, None), (profile.vpoc, "VPOC", VPOC, "-.", 1.2, "Volume POC"),
        (profile.high, "high, poor" if profile.poor_high else "high", INK, ":", 0.8, None),
        (profile.low, "low, poor" if profile.poor_low else "low", INK, ":", 0.8, None),
    ]  # fmt: skip
    if profile.ib_high == profile.ib_high:
        half = profile.tick_size / 2
        ax.plot(
            [-1.2, -1.2], [profile.ib_low - half, profile.ib_high + half], color=BALANCE, linewidth=4,
            solid_capstyle="butt", zorder=2, label="Initial balance",
        )  # fmt: skip
        marks += [
            (profile.ib_high, "IB high", BALANCE, ":", 0.8, None),
            (profile.ib_low, "IB low", BALANCE, ":", 0.8, None),
        ]
    span, inches = (
        profile.high - profile.low + 6 * profile.tick_size,
        ax.get_window_extent().height / ax.figure.dpi,
    )
    gap = span * _LINE_INCHES / inches
    last: float | None = None
    for price, name, colour, style, width, legend in sorted(marks, key=lambda mark: mark[0]):
        at = price if last is None else max(price, last + gap)  # pushed apart, so that no two names overlap
        last = at
        ax.plot(
            [-0.6, edge], [price, price], color=colour, linewidth=width, linestyle=style, alpha=0.85, zorder=1.5,
            label=legend,
        )  # fmt: skip
        ax.annotate(
            f"{name} {price_of(profile, price)}",
            (edge, price),
            (edge + 0.4, at),
            fontsize=7.5,
            color=colour,
            va="center",
        )
