"""Plot a market profile: TPO letters at their prices, value area, POC, initial balance and volume.

The plot shows the profile's own numbers with the decimals of the tick; it derives and rounds nothing. matplotlib is an
extra (`outcry[plot]`).
"""

from typing import TYPE_CHECKING, Any

from outcry.market.units import PRICE_SCALE, fixed_text, price_text

if TYPE_CHECKING:
    from outcry.library import Profile

INK, MUTED, VALUE, POC, BALANCE, VOLUME = "#1d2733", "#7b8794", "#e6effa", "#d9480f", "#2b8a3e", "#b8c7d9"
_VOLUME_WIDTH = 14  # of the volume histogram, in letters
_MOST_LABELS = 12  # on the price axis
_MAX_DRAWN_ROWS = 160  # more rows than this are drawn as groups: letters would be smaller than a pixel


def draw(profile: "Profile", ax: Any = None) -> Any:
    """Draw into matplotlib axes (None creates new ones) and return them. Raises ImportError without matplotlib."""
    try:
        import matplotlib.pyplot as plt  # noqa: PLC0415
    except ImportError as problem:
        raise ImportError("plot() needs matplotlib. Run: pip install 'outcry[plot]'") from problem
    group = -(-len(profile.rows) // _MAX_DRAWN_ROWS)
    widest = max(row.tpos for row in profile.rows)
    if ax is None:
        height = min(22.0, max(4.0, 0.13 * len(profile.rows) / group))
        _, ax = plt.subplots(figsize=(3.2 + 0.11 * (widest + _VOLUME_WIDTH), height))
    half = profile.tick_size / 2
    ax.axhspan(profile.val - half, profile.vah + half, color=VALUE, zorder=0, linewidth=0)
    _volume(profile, ax, widest)
    _letters(profile, ax, group)
    _levels(profile, ax, widest)
    ax.set_xlim(-2.5, widest + _VOLUME_WIDTH + 12)
    ax.set_ylim(profile.low - 3 * profile.tick_size, profile.high + 3 * profile.tick_size)
    ax.set_xticks([])
    _axis(profile, ax)
    for side in ("top", "right", "bottom"):
        ax.spines[side].set_visible(False)
    ax.set_title(
        f"TPO profile, {profile.method}: {len(profile.rows)} rows of {price_text(_tick_e9(profile))}",
        loc="left",
        fontsize=10,
    )
    return ax


def _tick_e9(profile: "Profile") -> int:
    return round(profile.tick_size * PRICE_SCALE)


def _text(profile: "Profile", price: float) -> str:
    tick_e9 = _tick_e9(profile)
    return fixed_text(round(price * PRICE_SCALE / tick_e9), tick_e9)


def _axis(profile: "Profile", ax: Any) -> None:
    """Label the price axis with tradable prices, spaced by a round number of ticks."""
    low, high = (round(price / profile.tick_size) for price in (profile.low, profile.high))
    step = next(
        ticks
        for power in range(19)
        for ticks in (10**power, 2 * 10**power, 5 * 10**power)
        if (high - low) // ticks < _MOST_LABELS
    )
    labelled = range(-(-low // step) * step, high + 1, step)
    prices = [ticks * _tick_e9(profile) / PRICE_SCALE for ticks in labelled]
    ax.set_yticks(prices, [_text(profile, price) for price in prices])


def _letters(profile: "Profile", ax: Any, group: int) -> None:
    """Draw one letter per bracket and row. Rows are grouped by ticks if there are too many to read."""
    size = 7.5 if len(profile.rows) / group <= 110 else 5.5
    for start in range(0, len(profile.rows), group):
        rows = profile.rows[start : start + group]
        marks = dict.fromkeys(mark for row in reversed(rows) for mark in row.letters)
        ink = POC if any(row.price == profile.poc for row in rows) else INK
        price = sum(row.price for row in rows) / len(rows)
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


def _order(mark: str) -> tuple[bool, str]:
    return not mark.isupper(), mark


def _volume(profile: "Profile", ax: Any, widest: int) -> None:
    most = max((row.volume for row in profile.rows), default=0) or 1
    ax.barh(
        [row.price for row in profile.rows], [row.volume / most * _VOLUME_WIDTH for row in profile.rows],
        height=profile.tick_size * 0.9, left=widest + 1.5, color=VOLUME, zorder=1, linewidth=0,
    )  # fmt: skip


def _levels(profile: "Profile", ax: Any, widest: int) -> None:
    edge = widest + _VOLUME_WIDTH + 2.5
    marks = [
        (profile.vah, "VAH", MUTED), (profile.val, "VAL", MUTED), (profile.poc, "POC", POC),
        (profile.vpoc, "VPOC", "#5f3dc4"),
        (profile.high, "high, poor" if profile.poor_high else "high", INK),
        (profile.low, "low, poor" if profile.poor_low else "low", INK),
    ]  # fmt: skip
    if profile.ib_high == profile.ib_high:  # presets without brackets have no initial balance
        ax.plot(
            [-1, -1],
            [profile.ib_low, profile.ib_high],
            color=BALANCE,
            linewidth=3,
            solid_capstyle="butt",
            zorder=2,
        )
    gap = (profile.high - profile.low) / 45 or profile.tick_size
    last: float | None = None
    for price, name, colour in sorted(marks):
        at = price if last is None else max(price, last + gap)  # pushed apart, so that no two names overlap
        last = at
        ax.plot([0, edge], [price, price], color=colour, linewidth=0.6, alpha=0.7, zorder=1)
        ax.annotate(
            f"{name} {_text(profile, price)}",
            (edge, price),
            (edge + 0.4, at),
            fontsize=7,
            color=colour,
            va="center",
        )
