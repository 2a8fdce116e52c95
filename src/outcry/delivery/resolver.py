"""Resolve the host of a webhook URL, and check each of its IP addresses.

If one of the IP addresses is not allowed, the host is blocked, because its owner could otherwise choose which of them
is used. Networks by which this machine reaches IPv4 through a translator (NAT64) are not public; the resolver looks
them up once an hour. Public names resolve through DNS without threads, so that slow names do not delay others. Hosts
that the operator allowed resolve as the operating system does. Decision record 0054.
"""

import asyncio
import socket
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from ipaddress import IPv6Network, ip_address
from typing import Any

from aiohttp import AsyncResolver
from aiohttp.abc import AbstractResolver, ResolveResult

from outcry.delivery.url_rule import PRIVATE, Destination, IpAddress, UrlRule, translation_networks

OK, UNVERIFIED = "ok", "unverified"
#: How long a caller waits for all addresses of a name.
PATIENCE_S = 3.0
#: Timeout of the first query. c-ares doubles it for the second, so both end within the patience.
_QUERY_S, _QUERIES = 1.0, 2
#: Threads for hosts that the operator allowed. Only such hosts wait for each other.
_SYSTEM_THREADS = 4
_DISCOVERY_NAME, _DISCOVERY_S = "ipv4only.arpa", 3600.0


class Unresolvable(Exception):
    """A host name has no IP addresses, or they were not found in time."""


class Blocked(Exception):
    """A host name resolves to an IP address to which connections are not allowed."""


class DnsResolver(AbstractResolver):
    """Resolver that queries the machine's DNS servers and reads its hosts file, by the library c-ares.

    Used on one event loop. `options` are those of `aiodns.DNSResolver`.
    """

    def __init__(self, **options: Any) -> None:
        self._options: dict[str, Any] = {"timeout": _QUERY_S, "tries": _QUERIES, **options}
        self._resolver: AsyncResolver | None = None

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """Return the IP addresses of a host from DNS and the hosts file."""
        if self._resolver is None:  # created here, because it belongs to the running loop
            self._resolver = AsyncResolver(**self._options)
        return await self._resolver.resolve(host, port, family)

    async def close(self) -> None:
        """Close the connections to the DNS servers."""
        if self._resolver is not None:
            await self._resolver.close()


class SystemResolver(AbstractResolver):
    """Resolver that uses the operating system's name services (mDNS too), in a few separate threads."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(_SYSTEM_THREADS, "private-hosts")

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """Return the IP addresses of a host from the operating system."""
        query = partial(socket.getaddrinfo, host.encode("ascii"), None, family, socket.SOCK_STREAM)
        found = await asyncio.get_running_loop().run_in_executor(self._threads, query)
        return resolve_results(host, port, dict.fromkeys(str(entry[4][0]) for entry in found))

    async def close(self) -> None:
        """Close the thread pool."""
        self._threads.shutdown(wait=False, cancel_futures=True)


class StaticResolver(AbstractResolver):
    """Resolver that returns the same IP addresses for every name."""

    def __init__(self, addresses: Iterable[str]) -> None:
        self._addresses = tuple(addresses)

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """Return the fixed IP addresses, whatever the host."""
        return resolve_results(host, port, self._addresses)

    async def close(self) -> None:
        """Do nothing."""


class GuardedResolver:
    """Resolver that checks URLs by a rule, and the IP addresses of their hosts.

    Used on one event loop. `private` resolves hosts that the operator allowed, `public` all others.
    """

    def __init__(
        self, rule: UrlRule, *, public: AbstractResolver | None = None, private: AbstractResolver | None = None,
        patience_s: float = PATIENCE_S,
    ) -> None:  # fmt: skip
        self.rule, self._patience_s = rule, patience_s
        self._public, self._private = public or DnsResolver(), private or SystemResolver()
        self._translators: tuple[IPv6Network, ...] = ()
        self._translators_until_s = float("-inf")

    async def check(self, url: str) -> str:
        """Return `ok`, `unverified` if the host cannot be resolved now, or the `endpoint_*` code of the fault."""
        destination = self.rule.check(url)
        if isinstance(destination, str):
            return destination
        try:
            await self.addresses(destination)
        except Unresolvable:
            return UNVERIFIED
        except Blocked:
            return PRIVATE
        return OK

    async def addresses(self, destination: Destination) -> tuple[IpAddress, ...]:
        """Return the IP addresses of a URL's host after checking them. Raises `Unresolvable` and `Blocked`."""
        if destination.ip is not None:
            found: tuple[IpAddress, ...] = (destination.ip,)
        elif destination.admitted:
            found = await self._resolve(self._private, destination.host)
        elif time.monotonic() < self._translators_until_s:
            found = await self._resolve(self._public, destination.host)
        else:
            found, _ = await asyncio.gather(
                self._resolve(self._public, destination.host), self._discover_translators()
            )
        if not all(self.may_connect(destination, ip) for ip in found):
            raise Blocked
        return found

    def may_connect(self, destination: Destination, ip: IpAddress) -> bool:
        """Return whether a request to a destination may connect to an IP address."""
        translated = not destination.admitted and any(ip in network for network in self._translators)
        return self.rule.may_connect(destination, ip) and not translated

    async def close(self) -> None:
        """Close both resolvers."""
        await self._public.close()
        await self._private.close()

    async def _resolve(self, resolver: AbstractResolver, name: str) -> tuple[IpAddress, ...]:
        try:
            async with asyncio.timeout(self._patience_s):
                results = await resolver.resolve(name, 0, socket.AF_UNSPEC)
            found = tuple(dict.fromkeys(ip_address(result["host"]) for result in results))
        except (OSError, ValueError):  # not found, too late, or not an IP address
            raise Unresolvable from None
        if not found:
            raise Unresolvable
        return found

    async def _discover_translators(self) -> None:
        with suppress(Unresolvable):  # then the known networks stay
            self._translators = translation_networks(await self._resolve(self._public, _DISCOVERY_NAME))
        self._translators_until_s = time.monotonic() + _DISCOVERY_S


def resolve_results(host: str, port: int, addresses: Iterable[str]) -> list[ResolveResult]:
    """Return IP addresses in the form that aiohttp expects of a resolver."""
    return [
        ResolveResult(
            hostname=host, host=address, port=port, proto=socket.IPPROTO_TCP, flags=socket.AI_NUMERICHOST,
            family=socket.AF_INET6 if ":" in address else socket.AF_INET,
        )
        for address in addresses
    ]  # fmt: skip
