"""Hosts of the firms on ProjectX.

The hosts are fixed here, and users cannot enter others. They are the hosts that the firms' own clients connect to.
"""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Firm:
    """Base URLs of one firm's ProjectX servers."""

    api: str
    hub: str


def _hosted(name: str) -> Firm:
    return Firm(f"https://api.{name}.projectx.com", f"https://rtc.{name}.projectx.com")


#: By the firm name that a connection form lists.
FIRMS: Mapping[str, Firm] = {
    "topstepx": Firm("https://api.topstepx.com", "https://rtc.topstepx.com"),
    "alphaticks": _hosted("alphaticks"),
    "blueguardian": _hosted("blueguardianfutures"),
    "blusky": _hosted("blusky"),
    "e8x": _hosted("e8"),
    "fundingfutures": _hosted("fundingfutures"),
    "futureselite": _hosted("futureselite"),
    "fxifyfutures": _hosted("fxifyfutures"),
    "goatfundedfutures": _hosted("goatfundedfutures"),
    "thefuturesdesk": _hosted("thefuturesdesk"),
    "tickticktrader": _hosted("tickticktrader"),
    "toponefutures": _hosted("toponefutures"),
    "tx3funding": _hosted("tx3funding"),
}
