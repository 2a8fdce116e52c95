"""Between two attempts at what may work the next time.

Rule kept: each pause may be twice as long as the one before, and is shortened by chance, so that many do not come back
at once.
"""

import asyncio
import random

FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 60.0


async def rest(pause_s: float, rush: float) -> float:
    """Pause so long at most, `rush` times shorter; return how long the pause after it may be."""
    spread = random.uniform(0.5, 1.0)  # noqa: S311 - spreads attempts; nothing secret about it
    await asyncio.sleep(pause_s * spread / rush)
    return min(2 * pause_s, LONGEST_PAUSE_S)
