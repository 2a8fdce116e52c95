"""Where an accepted address leads: its name is resolved once, and every answer judged.

Rules kept: one answer that is not public refuses them all, for what is behind it can choose which is tried; networks
by which this machine reaches IPv4 through a translator (NAT64) are nobody's public addresses, and found out anew each
hour.
"""

import asyncio
import time
from ipaddress import IPv6Network

from outcry.delivery.names import NameService, Unresolvable
from outcry.delivery.slots import NoTurn
from outcry.delivery.url_rule import PRIVATE, AddressRule, Number, Place, translation_networks

OK, UNVERIFIED = "ok", "unverified"
_DISCOVERY, _FOUND_FOR_S = "ipv4only.arpa", 3600.0


class Blocked(Exception):
    """A name leads to an address that may not be connected to."""


class Lookup:
    """Judges addresses by a rule and by what names resolve to. Used on one event loop."""

    def __init__(self, rule: AddressRule, names: NameService) -> None:
        self.rule, self._names = rule, names
        self._translators: tuple[IPv6Network, ...] = ()
        self._translators_until_s = float("-inf")

    async def judge(self, address: str) -> str:
        """`ok`; `unverified` where the name cannot be resolved now; or the `endpoint_*` code of what is wrong."""
        place = self.rule.judge(address)
        if isinstance(place, str):
            return place
        try:
            await self.numbers(place, judging=True)
        except (Unresolvable, NoTurn):
            return UNVERIFIED
        except Blocked:
            return PRIVATE
        return OK

    async def numbers(self, place: Place, *, judging: bool = False) -> tuple[Number, ...]:
        """The addresses of a place, at each of which it may be reached. `judging`: somebody waits for the verdict.
        Raises `Unresolvable`, `Blocked`, and `NoTurn` where there was nobody to ask for it."""
        if place.number is not None:
            found: tuple[Number, ...] = (place.number,)
        elif place.admitted or time.monotonic() < self._translators_until_s:
            found = await self._names.addresses(place.host, judging=judging)
        else:
            found, _ = await asyncio.gather(
                self._names.addresses(place.host, judging=judging), self._find_translators(judging=judging)
            )
        if not all(self.may_connect(place, number) for number in found):
            raise Blocked
        return found

    def may_connect(self, place: Place, number: Number) -> bool:
        """Whether a connection to a place may be one to this address."""
        behind = not place.admitted and any(number in network for network in self._translators)
        return self.rule.may_connect(place, number) and not behind

    def close(self) -> None:
        """Let go of what asks."""
        self._names.close()

    async def _find_translators(self, *, judging: bool) -> None:
        try:
            found = translation_networks(await self._names.addresses(_DISCOVERY, judging=judging))
        except Unresolvable:
            found = self._translators
        self._translators, self._translators_until_s = found, time.monotonic() + _FOUND_FOR_S
