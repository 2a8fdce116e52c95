"""Draw docs/images/profile.png from simulated trades: `python tools/docs_picture.py`."""

from pathlib import Path

import matplotlib as mpl
import numpy as np

import outcry

HALF_HOUR = 30 * 60 * 10**9
#: 09:30 in New York on the day that the picture names (ns UTC).
OPEN = 1_723_642_200 * 10**9


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
    return {"ts": OPEN + np.concatenate(times), "price": np.concatenate(prices), "size": sizes}


def main() -> None:
    """Write docs/images/profile.png."""
    mpl.use("Agg")
    axes = outcry.profile(simulated_day(), symbol="ES", date="2024-08-14").plot()
    axes.set_title(f"{axes.get_title(loc='left')}\nSimulated trades", loc="left", fontsize=9)
    axes.figure.savefig(Path(__file__).parents[1] / "docs" / "images" / "profile.png", dpi=80)


if __name__ == "__main__":
    main()
