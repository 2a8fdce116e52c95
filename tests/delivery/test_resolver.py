"""Resolving hosts: DNS without threads, names that do not answer, private hosts, and request slots."""

import asyncio
import socket
import struct
import threading
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import cast

import pytest
from support.resolvers import ScriptedResolver
from tests.delivery.conftest import Run

from outcry.delivery.resolver import (
    Blocked,
    DnsResolver,
    GuardedResolver,
    StaticResolver,
    SystemResolver,
    Unresolvable,
)
from outcry.delivery.slots import NoSlotFree, Slots
from outcry.delivery.url_rule import Destination, read_rule

A, AAAA = 1, 28
#: Two public addresses.
IPV4, IPV6 = "93.184.216.34", "2606:4700:4700::1111"


class DnsServer(asyncio.DatagramProtocol):
    """Answers every name with `IPV4` and `IPV6`; names that begin with `hang` never, `none` with NXDOMAIN."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.DatagramTransport", transport)

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        labels, at = list[str](), 12
        while data[at]:
            labels.append(data[at + 1 : at + 1 + data[at]].decode().lower())
            at += data[at] + 1
        question, kind = data[12 : at + 5], struct.unpack("!H", data[at + 1 : at + 3])[0]
        self.asked.append(".".join(labels))
        if labels[0].startswith("hang"):
            return
        code = 3 if labels[0].startswith("none") else 0
        packed = socket.inet_aton(IPV4) if kind == A else socket.inet_pton(socket.AF_INET6, IPV6)
        records = b"" if code else b"\xc0\x0c" + struct.pack("!HHIH", kind, 1, 60, len(packed)) + packed
        head = data[:2] + struct.pack("!HHHHH", 0x8180 | code, 1, int(bool(records)), 0, 0)
        self._transport.sendto(head + question + records, addr)


@asynccontextmanager
async def dns_server(patience_s: float = 20.0) -> AsyncGenerator[tuple[GuardedResolver, DnsServer]]:
    """A resolver that queries a server on loopback."""
    loop = asyncio.get_running_loop()
    transport, server = await loop.create_datagram_endpoint(DnsServer, ("127.0.0.1", 0))
    port: int = transport.get_extra_info("sockname")[1]
    # `lookups` is not passed: pycares 5.2 frees that string before c-ares reads it, and then every name is unknown
    # Many tries: c-ares waits as little as 250 ms for an answer of a server that was fast before.
    public = DnsResolver(nameservers=["127.0.0.1"], udp_port=port, timeout=20.0, tries=10)
    resolver = GuardedResolver(read_rule(), public=public, patience_s=patience_s)
    try:
        yield resolver, server
    finally:
        await resolver.close()
        transport.close()


def to(host: str, *, admitted: bool = False) -> Destination:
    return Destination(host, 443, f"https://{host}/", None, admitted)


async def found(resolver: GuardedResolver, host: str) -> list[str]:
    try:
        return sorted(map(str, await resolver.addresses(to(host))))
    except Unresolvable:
        return []


def test_all_addresses_of_a_name_are_found(run: Run) -> None:
    async def trial() -> None:
        async with dns_server() as (resolver, server):
            assert await found(resolver, "good.dev") == [IPV6, IPV4]
            assert await found(resolver, "none.dev") == []
            assert await resolver.check("https://good.dev/") == "ok"
            assert await resolver.check("https://none.dev/") == "unverified"
            assert {"good.dev", "none.dev", "ipv4only.arpa"} <= set(server.asked)

    run(trial())


def test_hundreds_of_names_that_hang_delay_no_other(run: Run) -> None:
    """512 lookups hang: as many as there are requests at once. Others are answered meanwhile, by no more threads."""

    async def trial() -> None:
        async with dns_server() as (resolver, _):
            assert await found(resolver, "first.dev")
            threads = threading.active_count()
            hanging = [asyncio.create_task(found(resolver, f"hang{at}.d{at % 40}.dev")) for at in range(512)]
            for at in range(50):
                # One family may be missing, if its answer is late.
                assert await found(resolver, f"good{at}.dev")
            assert not any(task.done() for task in hanging), "others wait for those that hang"
            assert threading.active_count() <= threads
            for task in hanging:
                task.cancel()
            await asyncio.gather(*hanging, return_exceptions=True)
            assert await found(resolver, "last.dev")

    run(trial())


def test_a_name_that_hangs_is_not_found_once_patience_ends(run: Run) -> None:
    async def trial() -> None:
        async with dns_server(patience_s=0.05) as (resolver, _):
            assert await found(resolver, "hang.dev") == []

    run(trial())


def test_a_request_that_no_longer_waits_leaves_no_trace(run: Run) -> None:
    async def trial() -> None:
        async with dns_server() as (resolver, _):
            waiting = asyncio.create_task(found(resolver, "hang.dev"))
            await asyncio.sleep(0.01)
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
            assert await found(resolver, "good.dev")

    run(trial())


def test_hosts_that_the_operator_allowed_resolve_by_the_system(run: Run) -> None:
    async def trial() -> None:
        public, private = list[str](), list[str]()

        def outside(name: str) -> list[str]:
            public.append(name)
            return [IPV4]

        def inside(name: str) -> list[str]:
            private.append(name)
            return ["10.0.0.5"]

        resolver = GuardedResolver(
            read_rule(), public=ScriptedResolver(outside), private=ScriptedResolver(inside)
        )
        assert list(map(str, await resolver.addresses(to("nas.local", admitted=True)))) == ["10.0.0.5"]
        assert list(map(str, await resolver.addresses(to("good.dev")))) == [IPV4]
        assert (set(public), private) == ({"good.dev", "ipv4only.arpa"}, ["nas.local"])
        system = SystemResolver()
        results = await system.resolve("localhost")
        assert {result["host"] for result in results} <= {"127.0.0.1", "::1"}
        await system.close()
        await resolver.close()

    run(trial())


def test_one_private_address_blocks_a_name(run: Run) -> None:
    async def trial() -> None:
        resolver = GuardedResolver(read_rule(), public=StaticResolver([IPV4, "10.0.0.5"]))
        with pytest.raises(Blocked):
            await resolver.addresses(to("mixed.dev"))
        await resolver.close()

    run(trial())


def test_slots_go_to_who_has_waited_longest_and_none_is_lost(run: Run) -> None:
    async def trial() -> None:
        slots = Slots(1)
        assert slots.try_acquire("a")
        assert not slots.try_acquire("a")
        first, second = (asyncio.create_task(slots.acquire(("a",), 5)) for _ in range(2))
        either = asyncio.create_task(slots.acquire(("a", "b"), 5))
        assert await either == "b"
        slots.release("a")
        assert await first == "a"
        assert not second.done()
        slots.release("a")  # the slot is granted, and its new holder is cancelled at once
        second.cancel()
        await asyncio.gather(second, return_exceptions=True)
        assert slots.try_acquire("a")
        with pytest.raises(NoSlotFree):
            await slots.acquire(("a", "b"), 0.01)
        slots.release("b")
        assert await slots.acquire(("a", "b"), 0.01) == "b"

    run(trial())
