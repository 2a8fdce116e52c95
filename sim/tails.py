"""What came of the files that grow: at every replica, the profile of the session that runs holds each of their trades
once."""

from collections import Counter
from collections.abc import Sequence

import aiohttp

from outcry.wiring import House
from sim.market import GrowingFile
from sim.stage import Stage


async def followed(files: Sequence[GrowingFile], stage: Stage, house: House, key: str) -> list[str]:
    """Where a replica's profile of a file's contract is not what was written, a line each."""
    faults: list[str] = []
    timeout = aiohttp.ClientTimeout(total=5)
    async with aiohttp.ClientSession(timeout=timeout, headers={"x-api-key": key}) as session:
        for file in files:
            expected = _volumes(file, house)
            for api in stage.of("api"):
                url = f"http://127.0.0.1:{api.port}/api/profile?symbol={file.contract.key}"
                try:
                    async with session.get(url) as answer:
                        said = await answer.json()
                except (aiohttp.ClientError, TimeoutError) as problem:
                    faults.append(f"{api.name} does not answer: {problem!r}")
                    continue
                found = {
                    round(row["price"] * 1e9): row["volume"] for row in said.get("rows", ()) if row["volume"]
                }
                if found != expected:
                    lots = f"{sum(found.values())} lots, not {sum(expected.values())}" if found else said
                    faults.append(f"{api.name}, {file.contract.key} as it was followed: {lots}")
    return faults


def _volumes(file: GrowingFile, house: House) -> dict[int, int]:
    """Lots by price (10⁻⁹) of the session that runs."""
    session = house.reference.calendar.session_at(file.contract.root, house.clock.now_ns())
    found: Counter[int] = Counter()
    if session is not None:
        rows = file.rows
        mine = rows[(rows["ts_event"] >= session.open_ns) & (rows["ts_event"] < session.close_ns)]
        for price, size in zip(mine["price"].tolist(), mine["size"].tolist(), strict=True):
            found[price] += size
    return dict(found)
