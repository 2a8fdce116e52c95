"""Draw the pictures of the documents: `python -m tools.docs_pictures` writes docs/images/*.svg.

All levels in a picture come from the product's own functions, all states from its tables. A test compares the files
with the output.
"""

from collections.abc import Iterator, Sequence
from datetime import date
from pathlib import Path

from tools.drawing import INK, MUTED, POC, TAIL, VALUE, Drawing
from tools.state_pictures import state_picture
from tools.state_tables import diagrams

from outcry.market.day_type import DayType, day_type
from outcry.market.ladder import IB_BRACKETS, Bracket, Ladder
from outcry.market.levels import CompletedSession, carried_levels
from outcry.market.methods import Method
from outcry.market.profile import SessionProfile, profile_of, value_area

IMAGES = Path(__file__).parents[1] / "docs" / "images"
LETTER, ROW = 9, 15  # width of a letter and height of a row, in pixels
#: A bracket of a picture: open, high, low and close in ticks.
Prices = tuple[int, int, int, int]


def ladder_of(brackets: Sequence[Prices | None]) -> Ladder:
    """Return the ladder of brackets in order; None is a bracket without trades. Volume is one lot per TPO."""
    rows = [
        Bracket(index, opened, high, low, close, index, index)
        for index, prices in enumerate(brackets)
        if prices is not None
        for opened, high, low, close in [prices]
    ]
    low, high = min(row.low_ticks for row in rows), max(row.high_ticks for row in rows)
    volume = tuple(sum(row.low_ticks <= at <= row.high_ticks for row in rows) for at in range(low, high + 1))
    return Ladder(tuple(rows), low, volume, ((low, high),), "bars")


def between(*ranges: tuple[int, int]) -> list[Prices]:
    """Return brackets that rise from their low to their high."""
    return [(low, high, low, high) for low, high in ranges]


def draw_profile(
    drawing: Drawing, x: float, top: float, ladder: Ladder, highest: int, *, value: tuple[int, int] | None = None,
    poc: int | None = None, marked: Sequence[int] = (), prices: bool = True,
) -> float:  # fmt: skip
    """Draw the letters of a ladder; the row of the price `highest` is at the top. Return the x after the widest row."""
    rows = ladder.letters()
    start = x + (34 if prices else 0)
    widest = max(map(len, rows)) * LETTER
    for at, letters in enumerate(rows):
        price = ladder.low_ticks + at
        y = top + (highest - price) * ROW
        if value and value[0] <= price <= value[1]:
            drawing.box(start - 3, y - 11, widest + 6, ROW, VALUE)
        if price in marked:
            drawing.box(start - 3, y - 11, max(len(letters), 1) * LETTER + 6, ROW, TAIL)
        if prices:
            drawing.text(start - 8, y, str(price), ink=MUTED, size=11, mono=True, anchor="end")
        for column, letter in enumerate(letters):
            ink = POC if price == poc else INK
            drawing.text(start + column * LETTER, y, letter, ink=ink, mono=True, bold=price == poc)
    return start + widest


def value_area_picture() -> Drawing:
    """Return the steps of the value area in the example of docs/explanation/value-area.md."""
    ladder = ladder_of([(100, 104, 100, 103), (102, 106, 102, 104), (104, 105, 103, 103)])
    found = profile_of(ladder, IB_BRACKETS)
    tpos, poc = found.tpos, found.poc - found.low
    drawing = Drawing("The value area grows from the point of control in two steps", 660, 218)
    steps = list(
        dict.fromkeys(value_area(tpos, poc, Method("step", percent=share)) for share in range(1, 71))
    )
    for number, (low, high, captured) in enumerate(steps):
        x = 22 + number * 212
        drawing.text(
            x, 28, "1. Start with the POC" if number == 0 else f"{number + 1}. Add the larger pair", bold=True
        )
        area = (found.low + low, found.low + high)
        draw_profile(drawing, x, 56, ladder, found.high, value=area, poc=found.poc)
        above, below = sum(tpos[high + 1 : high + 3]), sum(tpos[max(0, low - 2) : low])
        drawing.text(x, 182, f"{captured} of {sum(tpos)} TPOs = {100 * captured / sum(tpos):.0f} %")
        done = 100 * captured >= 70 * sum(tpos)
        drawing.text(
            x,
            202,
            f"VAL {area[0]}, VAH {area[1]}: done" if done else f"above {above}, below {below}",
            ink=MUTED,
        )
    return drawing


def poor_high_picture() -> Drawing:
    """Return a high with excess beside two poor highs."""
    cases = {
        "Excess": between((20, 24), (22, 29), (21, 25), (22, 26), (23, 25)),
        "Poor: a tail of one row": between((20, 24), (22, 27), (21, 26), (22, 26), (23, 26)),
        "Poor: no tail": between((20, 24), (22, 27), (21, 26), (24, 27), (23, 27)),
    }
    drawing = Drawing("A high with excess and two poor highs", 660, 232)
    for number, (name, brackets) in enumerate(cases.items()):
        ladder = ladder_of(brackets)
        found = profile_of(ladder, IB_BRACKETS)
        x = 22 + number * 212
        tail = range(found.high - found.upper_tail_rows + 1, found.high + 1)
        drawing.text(x, 28, name, bold=True)
        draw_profile(drawing, x, 56, ladder, 29, marked=[*tail] or [found.high])
        verdict = "poor high" if found.poor_high else "not poor"
        drawing.text(
            x, 218, f"single prints at the high: {found.upper_tail_rows}: {verdict}", ink=MUTED, size=11
        )
    return drawing


#: A session of each day type, by brackets in ticks. The picture prints the type that the product computes.
DAYS: tuple[tuple[list[Prices], int | None], ...] = (
    ([(10, 18, 6, 12), (12, 16, 4, 9), (9, 14, 6, 12), (12, 15, 8, 10), (10, 13, 7, 11), (11, 14, 8, 10)], None),
    ([(9, 13, 7, 12), (12, 14, 8, 13), (13, 18, 10, 16), (16, 18, 12, 14), (14, 16, 11, 13), (13, 15, 10, 12)], None),
    ([(2, 5, 2, 5), (5, 7, 4, 7), (7, 10, 6, 10), (10, 13, 9, 12), (12, 16, 11, 15), (15, 18, 14, 18)], None),
    ([(18, 18, 15, 15), (15, 16, 13, 13), (13, 14, 10, 10), (10, 11, 7, 8), (8, 9, 4, 5), (5, 6, 2, 2)], None),
    ([(4, 5, 2, 4), (4, 6, 3, 5), (5, 6, 2, 5), (5, 17, 5, 16), (16, 18, 14, 15), (15, 18, 14, 16), (16, 17, 14, 15)],
     None),
    ([(9, 13, 7, 11), (11, 13, 8, 12), (12, 17, 9, 10), (10, 12, 3, 6), (6, 11, 5, 10), (10, 13, 8, 11)], None),
    ([(9, 12, 7, 11), (11, 13, 8, 9), (9, 11, 3, 8), (8, 13, 7, 13), (13, 16, 11, 15), (15, 18, 13, 18)], None),
    ([(9, 12, 8, 10), (10, 12, 8, 9), (9, 11, 8, 10), (10, 12, 9, 11), (11, 12, 9, 10), (10, 11, 8, 9)], 16),
)  # fmt: skip


def day_types_picture() -> Drawing:
    """Return one profile for each day type, with the initial balance as a bar."""
    drawing = Drawing("One profile for each day type", 760, 656)
    shown: set[DayType] = set()
    for number, (brackets, average) in enumerate(DAYS):
        ladder = ladder_of(brackets)
        found = profile_of(ladder, IB_BRACKETS)
        kind = day_type(found, average)
        shown.add(kind)
        x, y = 26 + number % 4 * 184, 30 + number // 4 * 322
        drawing.text(x, y, str(kind), bold=True, mono=True, size=13)
        draw_profile(drawing, x + 14, y + 28, ladder, 18, prices=False)
        top, bottom = y + 28 + (18 - found.ib_high) * ROW, y + 28 + (18 - found.ib_low) * ROW
        drawing.box(x, top - 10, 4, bottom - top + 13, "#2b8a3e")
        _ends(drawing, x + 14, y + 28, found)
    assert shown == set(DayType), set(DayType) - shown
    return drawing


def _ends(drawing: Drawing, x: float, y: float, found: SessionProfile) -> None:
    words = {found.open: "open", found.close: "close"}
    if found.open == found.close:
        words = {found.open: "open, close"}
    for price, word in words.items():
        width = found.tpos[price - found.low] * LETTER
        drawing.text(x + width + 4, y + (18 - price) * ROW, f"◂ {word}", ink=MUTED, size=10)


def naked_poc_picture() -> Drawing:
    """Return four sessions with the POCs that are naked at the end, and the one that was tested."""
    days = [
        between((3, 7), (4, 8), (4, 7), (3, 6)),
        between((8, 13), (9, 12), (9, 12), (10, 13)),
        between((12, 16), (13, 17), (13, 16), (12, 15)),
        between((10, 14), (9, 13), (9, 12), (10, 13)),
    ]
    sessions: list[CompletedSession] = []
    for day, brackets in enumerate(days):
        ladder = ladder_of(brackets)
        sessions.append(CompletedSession(date(2026, 3, 2 + day), ladder, profile_of(ladder, IB_BRACKETS)))
    naked = {level.made_on for level in carried_levels(sessions).naked_pocs}
    drawing = Drawing("Naked and tested points of control of four sessions", 720, 306)
    for day, session in enumerate(sessions):
        x, poc = 24 + day * 150, session.profile.poc
        drawing.text(x, 28, session.trade_date.strftime("%A"), bold=True)
        end = draw_profile(drawing, x, 52, session.ladder, 17, poc=poc, prices=False)
        y = 52 + (17 - poc) * ROW - 4
        tested = [at for at in range(day + 1, len(sessions)) if sessions[at].ladder.prints_at(poc)]
        stop = 24 + tested[0] * 150 - 6 if tested else 640
        drawing.line(end + 4, y, stop, y, POC, dashed=session.trade_date not in naked)
        if session.trade_date in naked:
            drawing.text(646, y + 4, f"naked {poc}", ink=POC, size=11)
    drawing.text(
        24,
        294,
        "Solid: no later session traded at this price. Dashed: tested where the line ends.",
        ink=MUTED,
        size=11,
    )
    return drawing


def pictures() -> Iterator[tuple[str, str]]:
    """Yield the file name and text of each picture."""
    yield "value-area.svg", value_area_picture().svg()
    yield "poor-high.svg", poor_high_picture().svg()
    yield "day-types.svg", day_types_picture().svg()
    yield "naked-poc.svg", naked_poc_picture().svg()
    for diagram in diagrams():
        yield diagram.file_name, state_picture(diagram).svg()


if __name__ == "__main__":
    for name, text in pictures():
        (IMAGES / name).write_text(text)
