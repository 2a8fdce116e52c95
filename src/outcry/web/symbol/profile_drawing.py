"""The drawing of a profile: positions of its rows, lines and labels, for the template `symbol/profile.html`.

Heights are pixels and widths are percent of a panel, so that one drawing fits every window without a script. All levels
come from the answer of `GET /api/profile`; nothing of the profile is computed here.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from outcry.web.number_format import price_e9
from outcry.wire.answers import number
from outcry.wire.profile import ProfileAnswer, ProfileRow

#: Height of a row in pixels, and that of all rows if there is room to choose.
_MOST_ROW, _LEAST_ROW, _ALL_ROWS = 15.0, 2.0, 780.0
#: Least height of a row with letters, the width of a letter's cell, and the most letters in a row.
_LETTER_ROW, LETTER_PX, _MOST_LETTERS = 10.0, 9, 48
#: Panels narrower than these numbers of letters show blocks instead.
ROOMS = (14, 28, _MOST_LETTERS)
#: Distance between two labels, and between two prices of the axis, in pixels.
_LABEL, _AXIS_STEP = 14.0, 44.0
#: A line beyond the rows is drawn if it is within this fraction of their range.
_BEYOND = 0.12
#: Rows that still have a text of their own under the pointer.
_MOST_TEXTS = 240
_STEPS = tuple(step * 10**power for power in range(6) for step in (1, 2, 4, 5, 8))


@dataclass(frozen=True, slots=True)
class Level:
    """A level. `short`: the label of its line, empty if it has no line. `name`: in the list. `kind`: its style."""

    price: float
    kind: str
    short: str
    name: str


@dataclass(frozen=True, slots=True)
class Bar:
    """One row. `y`, `height`: pixels. `tpo`, `volume`, `delta_from`, `delta`: percent of their panels.

    `letters`: empty if the drawing has blocks only. `node`: `high` or `low` for a volume node. `delta_side`: `up`,
    `down`, or empty without a delta.
    """

    row: ProfileRow
    y: float
    height: float
    letters: str
    tpo: float
    volume: float
    in_value: bool
    in_volume_value: bool
    poc: bool
    vpoc: bool
    single: bool
    node: str = ""
    delta: float = 0.0
    delta_from: float = 50.0
    delta_side: str = ""

    @property
    def middle(self) -> float:
        """The middle of the row in pixels."""
        return self.y + self.height / 2


@dataclass(frozen=True, slots=True)
class Zone:
    """A range of prices beside the rows, in pixels. `kind`: `value`, `volume-value`, `single` or `excess`."""

    kind: str
    y: float
    height: float


@dataclass(frozen=True, slots=True)
class Label:
    """The label of a line: `y` of the line, `at` of the text, in pixels. `others`: labels of more levels there."""

    price: float
    kind: str
    short: str
    others: str
    y: float
    at: float


@dataclass(frozen=True, slots=True)
class Drawing:
    """All that a profile's drawing contains.

    `room`: letters for which the TPO panel needs room; 0 if the drawing has blocks only. `has_delta`: whether there is
    a panel for the volume delta. `texts`: whether each row has a text under the pointer.
    """

    height: float
    bars: Sequence[Bar]
    zones: Sequence[Zone]
    axis: Sequence[tuple[float, float]]
    labels: Sequence[Label]
    room: int
    has_delta: bool
    texts: bool

    @property
    def letter_px(self) -> int:
        """Width of a letter's cell in pixels."""
        return LETTER_PX


@dataclass(frozen=True, slots=True)
class _Scale:
    """Vertical positions: `top` is the price of the upper edge in ticks, `per_tick` the pixels of a tick."""

    top: float
    per_tick: float
    tick_e9: int

    def y(self, price: float) -> float:
        return self.edge(price_e9(price) / self.tick_e9)

    def edge(self, ticks: float) -> float:
        return round((self.top - ticks) * self.per_tick, 1)


def drawing_of(answer: ProfileAnswer, levels: Sequence[Level]) -> Drawing:
    """Return the drawing of a profile. levels: lines to draw; those too far from the rows are left out."""
    tick_e9, rows = price_e9(answer.tick_size), answer.rows
    row_ticks = answer.method.row_ticks
    lowest, highest = (price_e9(row.price) // tick_e9 for row in (rows[-1], rows[0]))
    edge_low, edge_high = lowest - 0.5, highest + row_ticks - 0.5
    room = _BEYOND * (edge_high - edge_low)
    near = [
        level
        for level in levels
        if level.short and edge_low - room <= price_e9(level.price) / tick_e9 <= edge_high + room
    ]
    reach = [price_e9(level.price) / tick_e9 for level in near]
    top = max([edge_high, *reach]) + row_ticks
    bottom = min([edge_low, *reach]) - row_ticks
    row_px = max(_LEAST_ROW, min(_MOST_ROW, int(_ALL_ROWS / len(rows))))
    scale = _Scale(top, row_px / row_ticks, tick_e9)
    shown = _merged(near, tick_e9)
    height = max(scale.edge(bottom), _LABEL * (len(shown) + 1))
    longest = max(len(row.letters) for row in rows)
    with_letters = row_px >= _LETTER_ROW and longest <= _MOST_LETTERS
    return Drawing(
        height=height, bars=_bars(answer, scale, with_letters=with_letters), zones=_zones(answer, scale),
        axis=_axis(scale, bottom), labels=_labels(shown, scale, height),
        room=next(room for room in ROOMS if longest <= room) if with_letters else 0,
        has_delta=answer.profile.delta is not None, texts=len(rows) <= _MOST_TEXTS,
    )  # fmt: skip


def _bars(answer: ProfileAnswer, scale: _Scale, *, with_letters: bool) -> list[Bar]:
    profile, tick_e9, row_ticks = answer.profile, scale.tick_e9, answer.method.row_ticks
    most_tpos = max(row.tpos for row in answer.rows)
    most_volume = max((row.volume for row in answer.rows), default=0) or 1
    most_delta = max((abs(row.delta or 0) for row in answer.rows), default=0) or 1
    nodes = dict.fromkeys(profile.low_volume_nodes, "low") | dict.fromkeys(profile.high_volume_nodes, "high")

    def bar(row: ProfileRow) -> Bar:
        low = price_e9(row.price) // tick_e9
        high = low + row_ticks - 1

        def holds(price: float) -> bool:
            return low <= price_e9(price) // tick_e9 <= high

        def inside(bottom: float, top: float) -> bool:
            return price_e9(bottom) // tick_e9 <= high and low <= price_e9(top) // tick_e9

        y = scale.edge(high + 0.5)
        delta = row.delta or 0
        share = 48 * abs(delta) / most_delta
        return Bar(
            row=row, y=y, height=round(scale.edge(low - 0.5) - y, 1),
            letters=row.letters if with_letters else "",
            tpo=round(100 * row.tpos / most_tpos, 2), volume=round(100 * row.volume / most_volume, 2),
            in_value=inside(profile.val, profile.vah),
            in_volume_value=inside(profile.volume_val, profile.volume_vah),
            poc=holds(profile.poc), vpoc=holds(profile.vpoc),
            single=is_single(row, answer),
            node=next((kind for price, kind in nodes.items() if holds(price)), ""),
            delta=round(share, 2), delta_from=round(50 - (share if delta < 0 else 0), 2),
            delta_side="up" if delta > 0 else "down" if delta < 0 else "",
        )  # fmt: skip

    return [bar(row) for row in answer.rows]


def is_single(row: ProfileRow, answer: ProfileAnswer) -> bool:
    """Return whether all ticks of a row are single prints inside the profile."""
    low_e9 = price_e9(row.price)
    high_e9 = low_e9 + (answer.method.row_ticks - 1) * price_e9(answer.tick_size)
    zones = answer.profile.single_prints
    return any(price_e9(zone.low) <= low_e9 and high_e9 <= price_e9(zone.high) for zone in zones)


def _zones(answer: ProfileAnswer, scale: _Scale) -> list[Zone]:
    profile, tick_e9 = answer.profile, scale.tick_e9

    def zone(kind: str, low_e9: int, high_e9: int) -> Zone:
        y = scale.edge(high_e9 / tick_e9 + 0.5)
        return Zone(kind, y, round(scale.edge(low_e9 / tick_e9 - 0.5) - y, 1))

    high_e9, low_e9 = price_e9(profile.high), price_e9(profile.low)
    found = [
        zone("value", price_e9(profile.val), price_e9(profile.vah)),
        zone("volume-value", price_e9(profile.volume_val), price_e9(profile.volume_vah)),
        *(zone("single", price_e9(each.low), price_e9(each.high)) for each in profile.single_prints),
    ]
    if profile.excess_high:
        found.append(zone("excess", high_e9 - (profile.upper_tail_ticks - 1) * tick_e9, high_e9))
    if profile.excess_low:
        found.append(zone("excess", low_e9, low_e9 + (profile.lower_tail_ticks - 1) * tick_e9))
    return found


def _axis(scale: _Scale, bottom: float) -> list[tuple[float, float]]:
    """Return prices with their positions: round numbers of ticks, far enough apart to read."""
    step = next(step for step in _STEPS if step * scale.per_tick >= _AXIS_STEP)
    first = int(-(-bottom // step)) * step
    shown = range(first, int(scale.top) + 1, step)
    return [(number(ticks * scale.tick_e9), scale.edge(ticks)) for ticks in reversed(shown)]


def _merged(levels: Sequence[Level], tick_e9: int) -> list[list[Level]]:
    """Return the levels at each tick, highest first."""

    def place(level: Level) -> int:
        return -round(price_e9(level.price) / tick_e9)

    return [list(group) for _, group in groupby(sorted(levels, key=place), key=place)]


def _labels(levels: Sequence[Sequence[Level]], scale: _Scale, height: float) -> list[Label]:
    """Return the labels, moved apart where their lines are too close. levels: those of each label, highest first."""
    wanted = [scale.y(first.price) for first, *_ in levels]
    groups: list[tuple[float, int]] = []  # centre and number of labels of each group without gaps
    for y in wanted:
        groups.append((_inside(y, 1, height), 1))
        while len(groups) > 1 and _touch(groups[-2], groups[-1]):
            (one, n), (other, m) = groups[-2:]
            groups[-2:] = [(_inside((one * n + other * m) / (n + m), n + m, height), n + m)]
    placed = [
        _inside(centre, count, height) + _LABEL * (at - (count - 1) / 2)
        for centre, count in groups
        for at in range(count)
    ]
    return [
        Label(first.price, first.kind, first.short, " ".join(each.short for each in others), y, round(at, 1))
        for (first, *others), y, at in zip(levels, wanted, placed, strict=True)
    ]


def _touch(upper: tuple[float, int], lower: tuple[float, int]) -> bool:
    return lower[0] - upper[0] < _LABEL * (upper[1] + lower[1]) / 2


def _inside(centre: float, count: int, height: float) -> float:
    half = _LABEL * count / 2
    return max(half, min(height - half, centre))
