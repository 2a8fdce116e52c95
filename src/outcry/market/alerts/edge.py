"""Upper and lower edges of an auction (such as VAH and VAL), with distances measured outwards from the edge.

A distance is positive beyond the edge and negative inside it, so that the alert machines need each rule only once for
both sides. `arm` is how far price must move away from an edge before it can approach the edge again (rules §6).
"""

from dataclasses import dataclass

from outcry.market.alerts.machine import BEYOND_TICKS, NEVER_NS, Observation, QuietBand, Value
from outcry.market.opening import Prior

TOLERANCE_TICKS = 2
LEAST_ARM_TICKS = 8

#: An empty band: every price is evaluated until the session has opened.
NEVER_QUIET = QuietBand(0, 0, 0)
#: Earlier than any event.
LONG_AGO_NS = -NEVER_NS

VA_PARAMS = (
    "level", "reached", "observed", "vah", "val", "poc", "tolTicks", "approach", "probeExtreme", "probeTicks",
    "secondsOutside", "brackets",
)  # fmt: skip


def arm_ticks(prior: Prior | None) -> int:
    """Return the rearm distance in ticks: how far price must move away before an edge can be tested again.

    It is a tenth of the prior value area, rounded up, at least eight ticks.
    """
    width = prior.vah - prior.val if prior else 0
    return max(LEAST_ARM_TICKS, -(-width // 10))


@dataclass(frozen=True, slots=True)
class Edge:
    """A price that bounds an auction from above (`sign` 1) or below (`sign` −1). Distances beyond it are positive."""

    ticks: int
    sign: int
    arm: int

    def beyond(self, price_ticks: int) -> int:
        """Return how many ticks beyond the edge a price is: 0 at the edge, negative inside."""
        return self.sign * (price_ticks - self.ticks)

    def furthest(self, seen: Observation) -> int:
        """Return how many ticks beyond the edge the outermost traded price of an observation is."""
        return seen.high - self.ticks if self.sign > 0 else self.ticks - seen.low

    def nearest(self, seen: Observation) -> int:
        """Return how many ticks beyond the edge the innermost traded price of an observation is."""
        return seen.low - self.ticks if self.sign > 0 else self.ticks - seen.high

    def opened_beyond(self, first: Observation) -> bool:
        """Return whether a session opened beyond the edge, by the open of its first observation."""
        return self.beyond(first.opened) > 0

    def touched(self, seen: Observation) -> bool:
        """Return whether the observation traded within the tolerance of the edge."""
        return self.furthest(seen) >= -TOLERANCE_TICKS and self.nearest(seen) <= TOLERANCE_TICKS

    def quiet(
        self, inner: int = -BEYOND_TICKS, outer: int = BEYOND_TICKS, until_ns: int = NEVER_NS
    ) -> QuietBand:
        """Return the price band strictly between `inner` and `outer` ticks beyond the edge."""
        if self.sign > 0:
            return QuietBand(self.ticks + inner, self.ticks + outer, until_ns)
        return QuietBand(self.ticks - outer, self.ticks - inner, until_ns)


@dataclass(frozen=True, slots=True)
class ValueEdge(Edge):
    """An edge of the prior value area: VAH or VAL."""

    prior: Prior

    @staticmethod
    def of(prior: Prior, *, upper: bool) -> "ValueEdge":
        """Return the VAH (upper) or VAL of a prior session."""
        return ValueEdge(prior.vah if upper else prior.val, 1 if upper else -1, arm_ticks(prior), prior)

    @property
    def ref(self) -> str:
        """Return the label of the edge, as alerts name it."""
        return "VAH" if self.sign > 0 else "VAL"

    def in_value(self, price_ticks: int) -> bool:
        """Return whether a price is in the value area, edges included."""
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

        seen: the observation that touched the edge. extreme: how many ticks beyond the edge price traded.
        """
        return {
            "level": self.ticks,
            "reached": None if seen is None else seen.nearest(self.ticks),
            "observed": None if seen is None else seen.kind,
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
