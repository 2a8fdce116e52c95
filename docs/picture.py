"""Draw docs/profile.png from simulated trades: `python docs/picture.py`."""

from pathlib import Path

import matplotlib as mpl
import numpy as np

import outcry

HALF_HOUR = 30 * 60 * 10**9


def simulated_day(seed: int = 11) -> dict[str, np.ndarray]:
    """Return thirteen half-hours of trades in ticks of 0.25: a day that opens low, rises and then balances."""
    random = np.random.default_rng(seed)
    centres = [5602, 5605, 5609, 5613, 5616, 5617, 5616, 5618, 5617, 5615, 5617, 5619, 5618]
    count = 900
    times, prices = [], []
    for half_hour, centre in enumerate(centres):
        times.append(np.sort(random.integers(half_hour * HALF_HOUR, (half_hour + 1) * HALF_HOUR, count)))
        prices.append(np.rint(random.normal(centre, 1.1, count).clip(centre - 2.75, centre + 2.75) * 4) / 4)
    sizes = random.geometric(0.4, count * len(centres))
    return {"ts": np.concatenate(times), "price": np.concatenate(prices), "size": sizes}


def main() -> None:
    """Write docs/profile.png."""
    mpl.use("Agg")
    found = outcry.profile(simulated_day(), tick_size=0.25, window=(0, 13 * HALF_HOUR))
    axes = found.plot()
    axes.set_title("TPO profile of a simulated day", loc="left", fontsize=10)
    axes.figure.savefig(Path(__file__).with_name("profile.png"), dpi=80, bbox_inches="tight")


if __name__ == "__main__":
    main()
