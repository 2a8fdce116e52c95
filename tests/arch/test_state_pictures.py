"""A picture of a state diagram shows every state and sign, and no text covers another text or a box."""

from itertools import combinations
from typing import NamedTuple
from xml.etree import ElementTree as ET

import pytest
from tools.drawing import POC
from tools.state_pictures import state_picture
from tools.state_tables import ANY, StateDiagram, Transition, diagrams

SVG = "{http://www.w3.org/2000/svg}"
#: All kinds of transitions: to a neighbour, over several states in both directions, and two by one arrow.
SAMPLE = StateDiagram(
    "sample", "A sample", ("new", "open", "held", "closed"),
    (
        Transition("new", "open", "begins (fires)"), Transition("new", "closed", "is refused"),
        Transition("open", "held", "waits"), Transition("open", "held", "is asked to wait for some long time"),
        Transition("held", "new", "starts anew"), Transition("held", "open", "goes on"),
        Transition("open", "closed", "ends"),
    ),
)  # fmt: skip


class Area(NamedTuple):
    """A rectangle of a picture: its edges, and the words in it."""

    left: float
    top: float
    right: float
    bottom: float
    words: str = ""

    def covers(self, other: "Area") -> bool:
        across = self.left < other.right and other.left < self.right
        return across and self.top < other.bottom and other.top < self.bottom


def texts(svg: ET.Element) -> list[Area]:
    """Return the area of each text; a letter is about half as wide as it is high."""
    found: list[Area] = []
    for text in svg.iter(f"{SVG}text"):
        x, y, size, words = (
            float(text.attrib["x"]),
            float(text.attrib["y"]),
            float(text.attrib["font-size"]),
            text.text,
        )
        assert words
        width = len(words) * size * 0.52
        left = {"start": x, "middle": x - width / 2, "end": x - width}[
            text.attrib.get("text-anchor", "start")
        ]
        found.append(Area(left, y - 0.75 * size, left + width, y + 0.2 * size, words))
    return found


def boxes(svg: ET.Element) -> list[Area]:
    """Return the area of each state's box. The card and the frame of a group are none."""
    return [
        Area(x, y, x + width, y + height)
        for rect in svg.iter(f"{SVG}rect")
        if rect.attrib["fill"] != "none" and "x" in rect.attrib
        for x, y, width, height in [[float(rect.attrib[name]) for name in ("x", "y", "width", "height")]]
    ]


@pytest.mark.parametrize("diagram", [SAMPLE, *diagrams()], ids=lambda diagram: diagram.name)
def test_every_state_and_sign_is_readable(diagram: StateDiagram) -> None:
    picture = state_picture(diagram)
    svg = ET.fromstring(picture.svg())
    words = texts(svg)
    assert {area.words for area in words} >= set(diagram.states)
    shown = " ".join(area.words for area in words)
    assert [one.sign for one in diagram.transitions if one.sign not in shown] == []
    assert [(a.words, b.words) for a, b in combinations(words, 2) if a.covers(b)] == []
    drawn = boxes(svg)
    assert len(drawn) == len(set(diagram.states) - {ANY})
    assert [a.words for a in words for box in drawn if a.covers(box) and a.words not in diagram.states] == []
    assert all(a.left >= 0 and a.right <= picture.width and a.bottom <= picture.height for a in words)


def test_each_transition_has_an_arrow_or_a_lane() -> None:
    """Arrows lead from new to open, from open to held (two signs) and back, and one leads to the first state.

    Lanes lead to closed, from two sources, and to new. The second source joins its lane with a dot. The other three
    circles are the initial state's dot and the two of the final state's ring."""
    svg = ET.fromstring(state_picture(SAMPLE).svg())
    paths = [path.attrib["d"] for path in svg.iter(f"{SVG}path")]
    assert sum(path.endswith("Z") for path in paths) == 6
    assert len(list(svg.iter(f"{SVG}circle"))) == 4
    assert {text.text for text in svg.iter(f"{SVG}text") if text.attrib["fill"] == POC} == {"begins (fires)"}


def test_a_state_that_nothing_leaves_is_final() -> None:
    assert SAMPLE.final == {"closed"}
    assert {one.name: set(one.final) for one in diagrams() if one.final} == {
        "ib-break": {"broken"}, "va-reject": {"spent"}, "naked-poc": {"tested"}, "va-test": {"spent"},
        "poor": {"repaired"}, "scenario": {"done", "void"},
    }  # fmt: skip
