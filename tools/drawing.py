"""SVG pictures for the documents."""

from collections.abc import Sequence
from html import escape

INK, MUTED, VALUE, POC, TAIL, LINE = "#1d2733", "#5c6b7a", "#d7e6f8", "#c2410c", "#fde68a", "#c5ced8"


class Drawing:
    """An SVG picture: elements on a light card, readable on light and dark pages."""

    def __init__(self, title: str, width: int, height: int) -> None:
        self.title, self.width, self.height = title, width, height
        self.parts: list[str] = []

    def text(
        self, x: float, y: float, words: str, *, ink: str = INK, size: int = 12, mono: bool = False,
        bold: bool = False, anchor: str = "start",
    ) -> None:  # fmt: skip
        """Write a line of text with its baseline at y. anchor: the part of the text that is at x."""
        family = "ui-monospace,Menlo,Consolas,monospace" if mono else "system-ui,Segoe UI,sans-serif"
        style = f'font-family="{family}" font-size="{size}" fill="{ink}"'
        style += ' font-weight="700"' * bold + f' text-anchor="{anchor}"' * (anchor != "start")
        self.parts.append(f'<text x="{x:g}" y="{y:g}" {style} xml:space="preserve">{escape(words)}</text>')

    def box(self, x: float, y: float, width: float, height: float, fill: str) -> None:
        """Fill a rectangle."""
        self.parts.append(f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" fill="{fill}"/>')

    def line(self, x1: float, y1: float, x2: float, y2: float, ink: str, *, dashed: bool = False) -> None:
        """Draw a line."""
        dash = ' stroke-dasharray="5 4"' * dashed
        self.parts.append(f'<path d="M{x1:g} {y1:g}L{x2:g} {y2:g}" stroke="{ink}" stroke-width="1.5"{dash}/>')

    def path(self, points: Sequence[tuple[float, float]], ink: str, *, arrow: bool = False) -> None:
        """Draw a line through points. An arrow has its head at the last point."""
        drawn = "L".join(f"{x:g} {y:g}" for x, y in points)
        self.parts.append(f'<path d="M{drawn}" fill="none" stroke="{ink}" stroke-width="1.3"/>')
        if arrow:
            (x1, y1), (x2, y2) = points[-2:]
            dx, dy = (x2 > x1) - (x2 < x1), (y2 > y1) - (y2 < y1)
            corners = [(x2, y2), *((x2 - 7 * dx - side * dy, y2 - 7 * dy - side * dx) for side in (4, -4))]
            head = "L".join(f"{x:g} {y:g}" for x, y in corners)
            self.parts.append(f'<path d="M{head}Z" fill="{ink}"/>')

    def dot(self, x: float, y: float, radius: float, fill: str, stroke: str = "none") -> None:
        """Draw a circle."""
        self.parts.append(f'<circle cx="{x:g}" cy="{y:g}" r="{radius:g}" fill="{fill}" stroke="{stroke}"/>')

    def frame(
        self, x: float, y: float, width: float, height: float, fill: str, *, dashed: bool = False
    ) -> None:
        """Draw a rectangle with round corners and an outline."""
        place = f'x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="6"'
        dash = ' stroke-dasharray="5 4"' * dashed
        self.parts.append(f'<rect {place} fill="{fill}" stroke="{MUTED}"{dash}/>')

    def svg(self) -> str:
        """Return the file's text."""
        size = f'width="{self.width}" height="{self.height}" viewBox="0 0 {self.width} {self.height}"'
        head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">'
        card = f'<rect width="{self.width}" height="{self.height}" rx="8" fill="#fbfcfd" stroke="{LINE}"/>'
        return "\n".join([head, f"<title>{escape(self.title)}</title>", card, *self.parts, "</svg>"]) + "\n"
