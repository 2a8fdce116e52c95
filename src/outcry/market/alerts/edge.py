"""An edge seen from its own auction: how far beyond it something traded, whichever side it bounds.

Owns the mirror between upper and lower edges, so that each machine states its rule once. Rules §6: `arm` is the
distance price must keep before an edge counts as approached anew.
"""

from dataclasses import dataclass

from outcry.market.alerts.machine import BEYOND_TICKS, NEVER_NS, Observation, Quiet, Value
from outcry.market.opening import Prior

TOLERANCE_TICKS = 2
LEAST_ARM_TICKS = 8

#: No price is quiet: the machine has not yet seen how the session opened.
ALERT = Quiet(0, 0, 0)
#: Earlier than anything.
LONG_AGO_NS = -NEVER_NS

VA_PARAMS = (
    "level", "reached", "observed", "vah", "val", "poc", "tolTicks", "approach", "probeExtreme", "probeTicks",
    "secondsOutside", "brackets",
)  # fmt: skip


def arm_ticks(prior: Prior | None) -> int:
    """A tenth of the prior value area rounded up, and never fewer than eight ticks."""
    width = prior.vah - prior.val if prior else 0
    return max(LEAST_ARM_TICKS, -(-width // 10))


@dataclass(frozen=True, slots=True)
class Edge:
    """A price that bounds an auction from above (`sign` 1) or below (−1). Beyond it is positive, inside negative."""

    ticks: int
    sign: int
    arm: int

    def beyond(self, price_ticks: int) -> int:
        """Ticks a price lies beyond the edge; 0 at it, negative inside."""
        return self.sign * (price_ticks - self.ticks)

    def furthest(self, seen: Observation) -> int:
        """Ticks beyond of the outermost price traded."""
        return seen.high - self.ticks if self.sign > 0 else self.ticks - seen.low

    def nearest(self, seen: Observation) -> int:
        """Ticks beyond of the innermost price traded."""
        return seen.low - self.ticks if self.sign > 0 else self.ticks - seen.high

    def opened_beyond(self, first: Observation) -> bool:
        """Whether a session whose first observation is this one opened beyond: its open decides, not its range."""
        return self.beyond(first.opened) > 0

    def touched(self, seen: Observation) -> bool:
        """Whether anything traded within the tolerance."""
        return self.furthest(seen) >= -TOLERANCE_TICKS and self.nearest(seen) <= TOLERANCE_TICKS

    def quiet(self, inner: int = -BEYOND_TICKS, outer: int = BEYOND_TICKS, until_ns: int = NEVER_NS) -> Quiet:
        """The band strictly between so many ticks beyond the edge."""
        if self.sign > 0:
            return Quiet(self.ticks + inner, self.ticks + outer, until_ns)
        return Quiet(self.ticks - outer, self.ticks - inner, until_ns)


@dataclass(frozen=True, slots=True)
class ValueEdge(Edge):
    """An edge of the prior value area."""

    prior: Prior

    @staticmethod
    def of(prior: Prior, *, upper: bool) -> "ValueEdge":
        """VAH (upper) or VAL of a prior session."""
        return ValueEdge(prior.vah if upper else prior.val, 1 if upper else -1, arm_ticks(prior), prior)

    @property
    def ref(self) -> str:
        """Its label."""
        return "VAH" if self.sign > 0 else "VAL"

    def in_value(self, price_ticks: int) -> bool:
        """Whether a price lies in the value area; its edges belong to it."""
        return self.prior.val <= price_ticks <= self.prior.vah

    def params(
        self,
        *,
        seen: Observation | None = None,
        tolerance: int | None = None,
        approach: str | None = None,
        extreme: int | None = None,
        seconds: int | None = None,
        brackets: list[int] | None = None,
    ) -> dict[str, Value]:
        """Return the parameters of an alert at this edge.

        seen: the observation that touched it. extreme: ticks beyond the edge that a probe reached.
        """
        return {
            "level": self.ticks,
            "reached": seen and seen.nearest(self.ticks),
            "observed": seen and seen.kind,
            "vah": self.prior.vah,
            "val": self.prior.val,
            "poc": self.prior.poc,
            "tolTicks": tolerance,
            "approach": approach,
            "probeExtreme": None if extreme is None else self.ticks + self.sign * extreme,
            "probeTicks": extreme,
            "secondsOutside": seconds,
            "brackets": brackets,
        }
