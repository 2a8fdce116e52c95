"""Draw a state diagram: states from top to bottom, and transitions around them.

A transition between neighbours is an arrow from one box to the other. All others leave their box sideways: on the right
if they lead down, on the left if they lead up. Transitions with the same target share one vertical line, their lane.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from textwrap import wrap

from tools.drawing import INK, MUTED, POC, VALUE, Drawing
from tools.state_tables import ANY, StateDiagram, Transition

LINE_PX, LETTER_PX, WRAP = 15, 6.6, 39  # height of a line and width of a letter of a label, letters in a line
STATE_LETTER_PX, STATE_PX, MARGIN_PX, LANE_PX, PORT_PX = 8, 30, 16, 14, 20
RIGHT, LEFT = 1, -1
#: Labels of an arrow: the lines of each sign. The picture highlights those that fire an alert.
Label = list[tuple[str, str]]


def label_of(transitions: Iterable[Transition]) -> Label:
    """Return the lines of a label with their colours; further signs of the same arrow begin with "or"."""
    lines: Label = []
    for number, one in enumerate(transitions):
        ink = POC if "(fires" in one.sign else INK
        lines += [(line, ink) for line in wrap(("or " if number else "") + one.sign, WRAP)]
    return lines


def width_of(label: Label) -> float:
    """Return the estimated width of a label."""
    return max((len(line) for line, _ in label), default=0) * LETTER_PX


@dataclass
class Port:
    """The place at which a transition leaves a box, or at which a lane ends at it. y: relative to the box."""

    target: int
    label: Label = field(default_factory=list[tuple[str, str]])
    incoming: bool = False
    y: float = 0

    @property
    def height(self) -> float:
        """Height that the port needs."""
        return max(PORT_PX, len(self.label) * LINE_PX + 6)


@dataclass
class Row:
    """A state with its ports, and the space to the next state with the arrows down and up."""

    ports: dict[int, list[Port]]
    down: Label
    up: Label
    top: float = 0
    height: float = 0

    @property
    def gap(self) -> float:
        """Height of the space to the next state."""
        return max(len(self.down), len(self.up)) * LINE_PX + 20

    def place(self, top: float) -> None:
        """Place the row, and its ports from the top of its box to the bottom."""
        needed = {side: sum(port.height for port in ports) for side, ports in self.ports.items()}
        self.top, self.height = top, max(STATE_PX, *(height + 4 for height in needed.values()))
        for side, ports in self.ports.items():
            y = (self.height - needed[side]) / 2
            for port in ports:
                y += port.height
                port.y = y - 5 if port.label else y - port.height / 2


def rows_of(diagram: StateDiagram) -> list[Row]:
    """Return the states with the transitions sorted into arrows between neighbours and ports at the sides."""
    number = {state: at for at, state in enumerate(diagram.states)}
    between: Mapping[tuple[int, int], list[Transition]] = defaultdict(list)
    for one in diagram.transitions:
        between[number[one.of], number[one.to]].append(one)
    rows = [
        Row(
            {RIGHT: [], LEFT: []},
            label_of(between.get((at, at + 1), ())),
            label_of(between.get((at + 1, at), ())),
        )
        for at in range(len(diagram.states))
    ]
    for (of, to), transitions in sorted(between.items()):
        if abs(of - to) > 1:
            rows[of].ports[RIGHT if to > of else LEFT].append(Port(to, label_of(transitions)))
    for at, row in enumerate(rows):
        for side, ports in row.ports.items():
            if any(port.target == at for other in rows for port in other.ports[side]):
                # Lanes on the right come from above, those on the left from below.
                ports.insert(0 if side == RIGHT else len(ports), Port(at, incoming=True))
    return rows


def lanes_of(rows: Sequence[Row], side: int) -> dict[int, int]:
    """Return the number of the lane of each target on a side; 0 is next to the boxes. Short lanes come first."""
    spans: dict[int, tuple[float, float]] = {}
    for row in rows:
        for port in row.ports[side]:
            low, high = spans.get(port.target, (row.top + port.y, row.top + port.y))
            spans[port.target] = min(low, row.top + port.y), max(high, row.top + port.y)
    lanes: list[list[tuple[float, float]]] = []
    found: dict[int, int] = {}
    for target, (low, high) in sorted(spans.items(), key=lambda item: item[1][1] - item[1][0]):
        free = (at for at, lane in enumerate(lanes) if all(high < a or low > b for a, b in lane))
        at = next(free, len(lanes))
        lanes[at:at] = [[]] * (at == len(lanes))
        lanes[at] = [*lanes[at], (low, high)]
        found[target] = at
    return found


class StateDrawing:
    """The layout of a diagram, and the drawing."""

    def __init__(self, diagram: StateDiagram) -> None:
        self.diagram, self.rows = diagram, rows_of(diagram)
        y = MARGIN_PX + 22.0
        for row in self.rows:
            row.place(y)
            y += row.height + row.gap
        self.box = max(len(state) for state in diagram.states) * STATE_LETTER_PX + 52
        self.lanes = {side: lanes_of(self.rows, side) for side in (RIGHT, LEFT)}
        self.room = {side: self._room(side) for side in (RIGHT, LEFT)}
        self.middle = MARGIN_PX + self.room[LEFT] + len(self.lanes[LEFT]) * LANE_PX + self.box / 2
        width = self.middle + self.box / 2 + self.room[RIGHT] + len(self.lanes[RIGHT]) * LANE_PX + MARGIN_PX
        bottom = self.rows[-1].top + self.rows[-1].height
        self.drawing = Drawing(diagram.title, round(width), round(bottom + MARGIN_PX))

    def _room(self, side: int) -> float:
        """Return the width between the boxes and the lanes of a side: room for the labels."""
        beside = max((width_of(port.label) + 28 for row in self.rows for port in row.ports[side]), default=0)
        labels = [row.down if side == RIGHT else row.up for row in self.rows]
        return max(beside, *(width_of(label) + 28 - self.box / 2 for label in labels), 12)

    def x(self, side: int, beyond: float = 0) -> float:
        """Return the x of the boxes' edge on a side, or of a place beyond it."""
        return self.middle + side * (self.box / 2 + beyond)

    def draw(self) -> Drawing:
        """Draw everything."""
        if self.diagram.group:
            self._frame()
        for side in (RIGHT, LEFT):
            for target in self.lanes[side]:
                self._lane(side, target)
        for at, state in enumerate(self.diagram.states):
            self._arrows(at)
            self._state(state, self.rows[at])
        first = self.rows[0].top
        self.drawing.dot(self.middle, MARGIN_PX, 5, INK)
        self.drawing.path([(self.middle, MARGIN_PX + 5), (self.middle, first)], INK, arrow=True)
        return self.drawing

    def _frame(self) -> None:
        last = self.rows[self.diagram.group]
        top = self.rows[0].top - 9
        self.drawing.frame(
            self.x(LEFT, 9), top, self.box + 18, last.top + last.height - top + 3, "none", dashed=True
        )

    def _state(self, state: str, row: Row) -> None:
        y = row.top + row.height / 2 + 4
        if state == ANY:
            self._centred(state, y, MUTED)
            return
        self.drawing.frame(self.x(LEFT), row.top, self.box, row.height, VALUE)
        self._centred(state, y, INK)
        if state in self.diagram.final:
            self.drawing.dot(self.x(RIGHT, -13), y - 4, 5, "none", INK)
            self.drawing.dot(self.x(RIGHT, -13), y - 4, 2.5, INK)

    def _centred(self, words: str, y: float, ink: str) -> None:
        self.drawing.text(self.middle, y, words, ink=ink, size=13, mono=True, anchor="middle")

    def _arrows(self, at: int) -> None:
        """Draw the arrows between a state and the next."""
        row = self.rows[at]
        above, below = row.top + row.height, row.top + row.height + row.gap
        apart = 9 if row.down and row.up else 0
        if row.down:
            self.drawing.path([(self.middle + apart, above), (self.middle + apart, below)], MUTED, arrow=True)
            self._label(row.down, self.middle + apart + 8, (above + below) / 2, RIGHT)
        if row.up:
            self.drawing.path([(self.middle - apart, below), (self.middle - apart, above)], MUTED, arrow=True)
            self._label(row.up, self.middle - apart - 8, (above + below) / 2, LEFT)

    def _label(self, label: Label, x: float, middle: float, side: int) -> None:
        for number, (line, ink) in enumerate(label):
            y = middle + (number - (len(label) - 1) / 2) * LINE_PX + 4
            self.drawing.text(x, y, line, ink=ink, anchor="start" if side == RIGHT else "end")

    def _lane(self, side: int, target: int) -> None:
        """Draw the line to a target, and the lines from its sources."""
        x = self.x(side, self.room[side] + self.lanes[side][target] * LANE_PX)
        ports = [
            (row.top + port.y, port) for row in self.rows for port in row.ports[side] if port.target == target
        ]
        end = next(y for y, port in ports if port.incoming)
        sources = sorted((y for y, port in ports if not port.incoming), key=lambda y: abs(y - end))
        self.drawing.path(
            [(self.x(side), sources[-1]), (x, sources[-1]), (x, end), (self.x(side), end)], MUTED, arrow=True
        )
        for y in sources[:-1]:
            self.drawing.path([(self.x(side), y), (x, y)], MUTED)
            self.drawing.dot(x, y, 2.5, MUTED)
        for y, port in ports:
            middle = y - 5 - (len(port.label) - 1) / 2 * LINE_PX - 4
            self._label(port.label, self.x(side, 14), middle, side)


def state_picture(diagram: StateDiagram) -> Drawing:
    """Return the picture of a state diagram."""
    return StateDrawing(diagram).draw()
