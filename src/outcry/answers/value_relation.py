"""Where a value area lies relative to the prior session's, and how many TPOs are above and below the POC.

The functions only compare prices and add counts, so prices may be floats here.
"""

from collections.abc import Sequence
from typing import Literal

from outcry.wire.profile import ProfileRow

ValueRelation = Literal[
    "higher", "lower", "overlapping_higher", "overlapping_lower", "inside", "outside", "same"
]


def value_relation(vah: float, val: float, prior_vah: float, prior_val: float) -> ValueRelation:
    """Return how the value area lies relative to the prior one, such as higher or overlapping."""
    if val > prior_vah:
        return "higher"
    if vah < prior_val:
        return "lower"
    if vah == prior_vah and val == prior_val:
        return "same"
    if vah >= prior_vah and val >= prior_val:
        return "overlapping_higher"
    if vah <= prior_vah and val <= prior_val:
        return "overlapping_lower"
    return "inside" if vah < prior_vah else "outside"


def tpos_around(poc: float, rows: Sequence[ProfileRow]) -> tuple[int, int]:
    """Return TPOs above and below a POC, excluding the POC's own row."""
    above = sum(row.tpos for row in rows if row.price > poc)
    return above, sum(row.tpos for row in rows if row.price < poc)
