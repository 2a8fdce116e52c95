"""Duration of each phase of a delivery, as a bar and as text.

The text beside the bar states everything that the bar shows, for readers who cannot see the bar.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from outcry.web.account.delivery_words import PHASES
from outcry.web.language import Words


@dataclass(frozen=True, slots=True)
class Part:
    """One phase of a delivery in the bar. `name`: its code; `begins` and `lasts`: position and width in percent."""

    name: str
    words: str
    took_ms: int
    begins: float
    lasts: float


def timed(words: Words, phases_ms: Sequence[tuple[str, int]], took_ms: int | None) -> list[Part]:
    """Return the phases of a delivery for display, in order; empty if none were measured.

    `took_ms`: duration of the whole attempt.
    """
    whole_ms = max(sum(part_ms for _, part_ms in phases_ms), took_ms or 0, 1)
    found: list[Part] = []
    at_ms = 0
    for name, part_ms in phases_ms:
        text = words(PHASES[name]) if name in PHASES else name
        begins, lasts = (round(100 * part / whole_ms, 2) for part in (at_ms, part_ms))
        found.append(Part(name, text, part_ms, begins, lasts))
        at_ms += part_ms
    return found
