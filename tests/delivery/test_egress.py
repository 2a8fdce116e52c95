"""The guarded HTTP client against misbehaving servers: each failure has a name and is bounded in time and memory.

It follows no redirect and connects to no address that was not checked. `b01` and the like are behaviours of the
vectors.
"""

import asyncio
import gzip
import ssl
import tracemalloc
from collections.abc import Sequence
from dataclasses import fields
from ipaddress import ip_network
from pathlib import Path
from typing import Protocol

import pytest
from tests.delivery.conftest import NAME, Run
from tests.delivery.loopback import (
    HEADERS,
    OK_ANSWER,
    PATIENT,
    QUICK,
    Authority,
    Behaviour,
    Names,
    OutsideRule,
    Server,
    Visit,
    kind,
    leaving,
    raw,
    serving,
)
from tests.timeouts import until, within

from outcry.delivery.egress import LONGEST_BODY, USER_AGENT, Egress, Limits, Reply
from outcry.delivery.model import SubscriptionRow
from outcry.delivery.trust import system_trust
from outcry.delivery.url_rule import UrlRule, read_rule

RULE = OutsideRule()
LAST_ANSWER = OK_ANSWER.replace(b" OK\r\n", b" OK\r\nConnection: close\r\n")
ENDLESS = b"x" * 65536
#: Far below any deadline of `PATIENT`, also on a loaded machine.


async def meet(
    behaviour: Behaviour, context: ssl.SSLContext | None, trust: ssl.SSLContext, limits: Limits = PATIENT
) -> tuple[Reply, Server]:
    """Post once to a server; return the reply and the server.

    After an error or an endless body, the server must see the connection close at once."""
    async with serving(behaviour, context) as server, leaving(RULE, Names(), trust, limits) as egress:
        reply = await egress.post(server.url(), b"{}", HEADERS)
        if server.reached and (reply.code != "ok" or reply.body == ENDLESS[:LONGEST_BODY]):
            await within(server.left.acquire(), 30)
    return reply, server


class Met(Protocol):
    def __call__(self, behaviour: Behaviour, limits: Limits = PATIENT) -> tuple[Reply, Server]: ...


@pytest.fixture
def met(run: Run, context: ssl.SSLContext, authority: Authority) -> Met:
    return lambda behaviour, limits=PATIENT: run(meet(behaviour, context, authority.trust(), limits))


def test_a_message_arrives_as_it_is_and_says_who_sends_it(met: Met) -> None:
    bodies: list[bytes] = []

    async def behave(visit: Visit) -> None:
        bodies.append(await visit.request())
        await visit.say(b"HTTP/1.1 202 Accepted\r\nretry-after: 7\r\nContent-Length: 2\r\n\r\nok")

    reply, server = met(behave)
    assert (reply.code, reply.status, reply.body) == ("ok", 202, b"ok")
    assert (reply.headers["Retry-After"], reply.headers.get("RETRY-AFTER")) == ("7", "7")
    assert [name for name, _ in reply.phases_ms] == ["dns", "connect", "tls", "answer"]
    assert sum(took for _, took in reply.phases_ms) <= reply.took_ms + 2
    assert bodies == [b"{}"]
    head = server.heads[0].decode().lower().split("\r\n")
    assert head[0] == "post /in http/1.1"
    assert f"host: {NAME}:{server.port}" in head
    assert f"user-agent: {USER_AGENT}".lower() in head
    assert "accept-encoding: identity" in head
    assert USER_AGENT.startswith("Outcry/")
    assert not any(
        line.startswith(("cookie", "authorization", "proxy", "referer", "connection")) for line in head
    )


def test_b01_a_name_that_later_resolves_to_a_private_address_is_refused(
    run: Run, context: ssl.SSLContext, authority: Authority
) -> None:
    async def trial() -> None:
        names = Names({NAME: [("127.0.0.2",), ("127.0.0.1",)]})
        async with (
            serving(kind, context, "127.0.0.1") as inside,
            leaving(RULE, names, authority.trust()) as egress,
        ):
            assert await egress.check(inside.url()) == "ok"
            reply = await egress.post(inside.url(), b"{}", HEADERS)
            assert (reply.code, reply.status, reply.body) == ("blocked_address", None, b"")
            assert [name for name, _ in reply.phases_ms] == ["dns"]
            assert await egress.check(inside.url()) == "endpoint_private"
            assert inside.reached == []

    run(trial())


def test_b02_each_connection_uses_its_own_lookup(
    run: Run, context: ssl.SSLContext, authority: Authority
) -> None:
    async def twice(visit: Visit) -> None:
        await visit.request()
        await visit.say(OK_ANSWER)
        await visit.request()
        await visit.say(LAST_ANSWER)

    async def trial() -> None:
        names = Names({NAME: [("127.0.0.2",), ("127.0.0.3",)]})
        async with (
            serving(twice, context) as server,
            serving(twice, context, "127.0.0.3", server.port) as other,
            leaving(RULE, names, authority.trust()) as egress,
        ):
            replies = [await egress.post(server.url(), b"{}", HEADERS) for _ in range(4)]
        assert [reply.code for reply in replies] == ["ok"] * 4
        assert names.asked == [NAME, NAME]
        assert (server.reached, other.reached) == (["127.0.0.2"], ["127.0.0.3"])
        assert [[name for name, _ in reply.phases_ms][:1] for reply in replies] == [
            ["dns"], ["answer"], ["dns"], ["answer"]]  # fmt: skip

    run(trial())


def test_b03_all_addresses_are_checked_each_time(
    run: Run, context: ssl.SSLContext, authority: Authority
) -> None:
    answers = [("127.0.0.2",), ("::1",), ("127.0.0.2", "::1"), ("10.0.0.1", "127.0.0.2"), ("127.0.0.2", "fe80::1%lo"),
               ("64:ff9b::7f00:2",), ("::ffff:127.0.0.2",), ("0.0.0.0",), ("127.0.0.2",)]  # fmt: skip

    async def trial() -> None:
        names = Names({NAME: list(answers)})
        async with (
            serving(raw(LAST_ANSWER), context) as server,
            leaving(RULE, names, authority.trust()) as egress,
        ):
            codes = [(await egress.post(server.url(), b"{}", HEADERS)).code for _ in answers]
            assert codes == ["ok", *["blocked_address"] * 7, "ok"]
            assert server.reached == ["127.0.0.2"] * 2

    run(trial())


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_b04_b05_b06_redirects_are_not_followed(
    run: Run, context: ssl.SSLContext, authority: Authority, status: int
) -> None:
    async def trial() -> None:
        names = Names()
        async with serving(kind, context) as other, leaving(RULE, names, authority.trust()) as egress:
            for to in (
                b"http://169.254.169.254/",
                other.url("other.mysite.dev").encode(),
                b"/x%0d%0aX-Evil: 1",
            ):
                answer = b"HTTP/1.1 %d Moved\r\nLocation: %s\r\nContent-Length: 2\r\n\r\nno" % (status, to)
                async with serving(raw(answer), context) as server:
                    reply = await egress.post(server.url(), b"{}", HEADERS)
                    assert (reply.code, reply.status, reply.body) == ("ok", status, b"no")
                    assert len(server.heads) == 1
            assert set(names.asked) == {NAME}
            assert other.reached == []

    run(trial())


def test_b06_a_multi_line_location_is_invalid(met: Met) -> None:
    reply, server = met(
        raw(b"HTTP/1.1 302 Found\r\nLocation: https://a\rX-Evil: 1\r\nContent-Length: 0\r\n\r\n")
    )
    assert (reply.code, reply.status) == ("bad_response", None)
    assert len(server.heads) == 1


def test_b07_an_upgrade_is_refused_and_the_connection_closed(met: Met) -> None:
    """`met` waits until the server has seen the connection close."""
    switching = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n"
    reply, _ = met(raw(switching, b"\x81\x05hello"))
    assert (reply.code, reply.status, reply.body) == ("bad_response", None, b"")


def bounded(met: Met, behaviour: Behaviour, limits: Limits = PATIENT) -> tuple[Reply, Server]:
    """Post once, and check that it took less than 20 MiB, server included."""
    tracemalloc.start()
    try:
        made = met(behaviour, limits)
        assert tracemalloc.get_traced_memory()[1] < 20 * 1024 * 1024
    finally:
        tracemalloc.stop()
    return made


async def flood(visit: Visit, part: bytes) -> None:
    while True:
        await visit.say(part)


@pytest.mark.parametrize(
    ("head", "part"),
    [
        (b"Transfer-Encoding: chunked", b"%x\r\n" % 65536 + ENDLESS + b"\r\n"),
        (b"Content-Length: 10737418240", ENDLESS),
        (b"Connection: close", ENDLESS),
    ],
    ids=["b08 endless chunks", "b09 ten gigabytes", "until it closes"],
)
def test_16_kib_of_an_endless_response_are_read_and_evaluated(met: Met, head: bytes, part: bytes) -> None:
    async def behave(visit: Visit) -> None:
        await visit.request()
        await visit.say(b"HTTP/1.1 500 No\r\n%s\r\n\r\n" % head)
        await flood(visit, part)

    reply, server = bounded(met, behave)
    assert (reply.code, reply.status, reply.body) == ("ok", 500, ENDLESS[:LONGEST_BODY])
    assert server.sent < 8 * 1024 * 1024


def test_b10_nothing_is_decompressed(met: Met) -> None:
    bomb = gzip.compress(bytes(50 * 1024 * 1024))
    head = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(bomb)
    reply, server = bounded(met, raw(head + bomb))
    assert (reply.code, reply.status, reply.body) == ("ok", 200, bomb[:LONGEST_BODY])
    assert b"accept-encoding: identity" in server.heads[0].lower()
    assert server.heads[0].lower().count(b"accept-encoding") == 1


def test_b11_a_body_that_drips_ends_at_the_deadline(met: Met) -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n"
    reply, _ = met(raw(head, *[b"x"] * 1000, pause_s=0.02), QUICK)
    assert (reply.code, reply.status) == ("answer_timeout", 200)
    assert 0 < len(reply.body) < 100


def test_b12_a_head_that_drips_ends_at_the_deadline(met: Met) -> None:
    reply, _ = met(raw(b"HTTP/1.1 200 OK\r\n", *[b"x-a: 1\r\n"] * 100, pause_s=0.02), QUICK)
    assert (reply.code, reply.status, reply.body) == ("answer_timeout", None, b"")
    assert [name for name, _ in reply.phases_ms] == ["dns", "connect", "tls", "answer"]


def test_an_answer_that_never_comes_ends_at_the_deadline(met: Met) -> None:
    reply, _ = met(raw(), QUICK)
    assert reply.code == "answer_timeout"


def test_b13_a_handshake_that_never_comes_ends_at_its_own_deadline(run: Run, authority: Authority) -> None:
    async def silent(visit: Visit) -> None:
        await visit.reader.read()

    async def dripping(visit: Visit) -> None:
        for octet in b"\x16\x03\x03\x40\x00" + b"x" * 1000:
            await visit.say(bytes((octet,)))
            await asyncio.sleep(0.05)

    for behaviour in (silent, dripping):
        limits = Limits(connect_s=0.4, total_s=6.0)
        reply, server = run(meet(behaviour, None, authority.trust(), limits))
        assert reply.code == "connect_timeout"
        assert [name for name, _ in reply.phases_ms] == ["dns", "connect", "tls"]
        assert server.reached == ["127.0.0.2"]


@pytest.mark.parametrize(
    "head",
    [b"x-a: 1\r\n" * 100_000, b"x-a: " + b"a" * 1024 * 1024 + b"\r\n", b"a" * 1024 * 1024 + b": x\r\n",
     b"x-a: " + b"a" * 8000 + b"\r\n" + b"x-b: 1\r\n" * 200],
    ids=["100,000 headers", "a megabyte of value", "a megabyte of name", "200 headers"],
)  # fmt: skip
def test_b14_a_head_has_bounds(met: Met, head: bytes) -> None:
    reply, _ = bounded(met, raw(b"HTTP/1.1 200 OK\r\n" + head + b"\r\n"))
    assert (reply.code, reply.status) == ("bad_response", None)


@pytest.mark.parametrize(
    "response",
    [b"<html>I speak HTTP/0.9</html>\n", b"\x00\x01\x02\x03" * 64, b"SSH-2.0-OpenSSH_9.6\r\n\r\n",
     b"220 mail ESMTP\r\n\r\n",
     *(b"HTTP/1.1 %s OK\r\nContent-Length: 0\r\n\r\n" % status for status in (b"000", b"099", b"600", b"999")),
     b"HTTP/1.1 2000 OK\r\n\r\n", b"HTTP/1.1 abc OK\r\n\r\n", b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
     b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
     b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
     b"HTTP/1.1 200 OK\r\nx-a: 1\x00\r\n\r\n", b"HTTP/1.1 200 OK\r\n : x\r\n\r\n"],
)  # fmt: skip
def test_b15_a_response_that_is_not_http_is_named(met: Met, response: bytes) -> None:
    reply, _ = met(raw(response))
    assert (reply.code, reply.status, reply.body) == ("bad_response", None, b"")


def test_a_few_interim_responses_are_skipped(met: Met) -> None:
    reply, _ = met(raw(b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n" * 16 + OK_ANSWER))
    assert (reply.code, reply.status) == ("ok", 200)


@pytest.mark.parametrize(
    "fault", ["self-signed", "expired", "wrong name", "sha1", "unknown authority", "no TLS at all"]
)
def test_b16_an_invalid_certificate_is_named(
    run: Run, authority: Authority, tmp_path: Path, fault: str
) -> None:
    contexts = {
        "self-signed": lambda: authority.context(NAME, self_signed=True),
        "expired": lambda: authority.context(NAME, expired=True),
        "wrong name": lambda: authority.context("other.mysite.dev", "127.0.0.2"),
        "sha1": lambda: authority.context(NAME, sha1=True),
        "unknown authority": lambda: Authority(tmp_path).context(NAME),
        "no TLS at all": lambda: None,
    }

    async def answer(visit: Visit) -> None:
        await visit.say(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await visit.reader.read()

    reply, server = run(meet(answer, contexts[fault](), authority.trust()))
    assert (reply.code, reply.status, reply.body) == ("tls_error", None, b"")
    assert [name for name, _ in reply.phases_ms] == ["dns", "connect", "tls"]
    assert server.heads == []


def test_b17_a_server_of_old_tls_is_refused(run: Run, authority: Authority) -> None:
    for version in (ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1):
        context = authority.context(NAME)
        with pytest.warns(DeprecationWarning, match="deprecated"):
            context.minimum_version = version
        with pytest.warns(DeprecationWarning, match="deprecated"):
            context.maximum_version = version
        reply, server = run(meet(kind, context, authority.trust()))
        assert reply.code == "tls_error"
        assert server.heads == []


def test_b18_the_environment_is_ignored(
    run: Run, context: ssl.SSLContext, authority: Authority, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Proxies, password files and certificate files in the environment are ignored."""
    (tmp_path / ".netrc").write_text(f"machine {NAME} login ann password secret\n")
    monkeypatch.setenv("NETRC", str(tmp_path / ".netrc"))
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.path))
    monkeypatch.setenv("SSL_CERT_DIR", str(authority.path.parent))

    async def trial() -> None:
        async with serving(kind, None, "127.0.0.1") as proxy, serving(kind, context) as server:
            for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"):
                monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
            async with leaving(RULE, Names(), authority.trust()) as egress:
                assert (await egress.post(server.url(), b"{}", HEADERS)).code == "ok"
            async with leaving(RULE, Names(), system_trust()) as egress:
                assert (await egress.post(server.url(), b"{}", HEADERS)).code == "tls_error"
            assert proxy.reached == []
            assert len(server.heads) == 1
            assert b"authorization" not in server.heads[0].lower()

    run(trial())


def test_b19_b20_b21_no_state_of_a_server_is_stored(
    run: Run, context: ssl.SSLContext, authority: Authority
) -> None:
    """Cookies, credentials and alternative services are ignored."""
    answer = (
        b"HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Basic realm=x\r\nSet-Cookie: a=b; Path=/\r\n"
        b'Alt-Svc: h2="other.mysite.dev:443"; ma=9999\r\nStrict-Transport-Security: max-age=9999\r\n'
        b"Content-Length: 0\r\n\r\n"
    )
    context.set_alpn_protocols(["h2", "http/1.1"])
    chosen: list[str | None] = []

    async def behave(visit: Visit) -> None:
        chosen.append(visit.writer.get_extra_info("ssl_object").selected_alpn_protocol())
        while True:
            await visit.request()
            await visit.say(answer)

    async def trial() -> None:
        names = Names()
        async with serving(behave, context) as server, leaving(RULE, names, authority.trust()) as egress:
            for _ in range(3):
                reply = await egress.post(server.url(), b"{}", HEADERS)
                assert (reply.code, reply.status) == ("ok", 401)
            assert len(set(server.heads)) == 1
            assert len(server.heads) == 3
            assert not any(word in server.heads[0].lower() for word in (b"cookie", b"authorization"))
            assert names.asked == [NAME]
            assert chosen == ["http/1.1"]

    run(trial())


def test_b22_a_stalled_name_server_delays_no_other_host(
    run: Run, context: ssl.SSLContext, authority: Authority
) -> None:
    """Forty hosts whose name servers never respond are retried repeatedly beside a healthy one."""
    released = asyncio.Event()

    async def resolver(name: str) -> Sequence[str]:
        if name.startswith("slow"):
            await released.wait()
        return ("127.0.0.2",)

    async def trial() -> None:
        async with (
            serving(kind, context) as server,
            leaving(RULE, resolver, authority.trust(), patience_s=0.7) as egress,
        ):
            slow = [
                asyncio.create_task(egress.post(server.url(f"slow{at % 40}.dev"), b"{}", HEADERS))
                for at in range(120)
            ]
            arrived = 0
            while not all(task.done() for task in slow):
                closing = await egress.post(server.url(), b"{}", HEADERS)
                assert closing.code == "ok"
                arrived += 1
            replies = [task.result() for task in slow]
            assert {reply.code for reply in replies} == {"unresolvable"}
            assert arrived > 3, "others wait for those that hang"
            assert await egress.check(server.url("slow1.dev")) == "unverified"
            released.set()

    run(trial())


def test_b23_where_a_chain_of_names_ends_is_what_counts(
    run: Run, context: ssl.SSLContext, authority: Authority
) -> None:
    async def trial() -> None:
        names = Names({NAME: [("169.254.169.254",)]})
        async with serving(kind, context) as server, leaving(RULE, names, authority.trust()) as egress:
            assert (await egress.post(server.url(), b"{}", HEADERS)).code == "blocked_address"
            assert await egress.check(server.url()) == "endpoint_private"

    run(trial())


def test_b24_many_names_at_one_address_share_its_slots(run: Run, authority: Authority) -> None:
    """The other limit, twenty webhooks per user, belongs to subscriptions."""
    context = authority.context("*.mysite.dev")
    at_once = worst = 0

    async def slow(visit: Visit) -> None:
        nonlocal at_once, worst
        while True:
            await visit.request()
            at_once += 1
            worst = max(worst, at_once)
            await asyncio.sleep(0.15)
            at_once -= 1
            await visit.say(OK_ANSWER)

    async def trial() -> None:
        limits = Limits(connect_s=6, total_s=6, slot_wait_s=0.35, at_address=4)
        async with (
            serving(slow, context) as server,
            leaving(RULE, Names(), authority.trust(), limits) as egress,
        ):
            for _ in range(2):  # over new connections, and over reused ones
                urls = [server.url(f"x{at}.mysite.dev") for at in range(40)]
                replies = await asyncio.gather(*(egress.post(url, b"{}", HEADERS) for url in urls))
                codes = [reply.code for reply in replies]
                assert set(codes) == {"ok", "too_busy"}
                assert 4 <= codes.count("ok") <= 16
                assert all(reply.took_ms < 5500 for reply in replies if reply.code == "too_busy")
            assert (await egress.post(server.url("x0.mysite.dev"), b"{}", HEADERS)).code == "ok"

    run(trial())
    assert worst == 4


def test_b25_custom_headers_are_not_possible(
    met: Met, run: Run, context: ssl.SSLContext, authority: Authority
) -> None:
    """A subscription has no custom headers.

    A sender's headers cannot override ours, and cannot contain a line break."""
    assert not [field.name for field in fields(SubscriptionRow) if "header" in field.name]

    async def trial() -> None:
        async with serving(kind, context) as server, leaving(RULE, Names(), authority.trust()) as egress:
            reply = await egress.post(server.url(), b"{}", {"X-A": "1\r\nX-Evil: 1"})
            assert (reply.code, reply.status) == ("bad_response", None)
            assert server.heads == []
            reply = await egress.post(server.url(), b"{}", {"User-Agent": "x", "Accept-Encoding": "gzip"})
            assert reply.code == "ok"
            assert b"gzip" not in server.heads[0]
            assert USER_AGENT.encode() in server.heads[0]

    run(trial())


@pytest.mark.parametrize(
    "address", ["https://127.0.0.1:{}/in", "https://[::ffff:127.0.0.1]:{}/in", "https://inside.dev:{}/in"]
)
def test_b27_no_response_from_a_private_address_is_returned(
    run: Run, context: ssl.SSLContext, authority: Authority, address: str
) -> None:
    """This includes IP literals, for which the client asks no resolver (the rule of these tests accepts them)."""

    async def trial() -> None:
        names = Names({"inside.dev": [("127.0.0.1",)]})
        async with (
            serving(
                raw(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nsecret"), context, "127.0.0.1"
            ) as inside,
            leaving(RULE, names, authority.trust()) as egress,
        ):
            reply = await egress.post(address.format(inside.port), b"{}", HEADERS)
            assert (reply.code, reply.status, reply.body, dict(reply.headers)) == (
                "blocked_address",
                None,
                b"",
                {},
            )
            assert inside.reached == []

    run(trial())


def test_b28_our_own_addresses_can_be_denied(run: Run, context: ssl.SSLContext, authority: Authority) -> None:
    async def trial() -> None:
        rule = OutsideRule(denied_networks=(ip_network("127.0.0.3/32"),))
        names = Names({"hairpin.dev": [("127.0.0.3",)]})
        async with (
            serving(kind, context, "127.0.0.3") as own,
            leaving(rule, names, authority.trust()) as egress,
        ):
            assert (await egress.post(own.url("hairpin.dev"), b"{}", HEADERS)).code == "blocked_address"
            assert (await egress.post(own.url("127.0.0.3"), b"{}", HEADERS)).code == "endpoint_private"
            assert await egress.check(own.url("hairpin.dev")) == "endpoint_private"
            assert own.reached == []

    run(trial())


def test_b29_two_names_at_one_address_share_no_connection(run: Run, authority: Authority) -> None:
    async def trial() -> None:
        context = authority.context(NAME)
        async with serving(kind, context) as server, leaving(RULE, Names(), authority.trust()) as egress:
            codes = [
                (await egress.post(server.url(name), b"{}", HEADERS)).code
                for name in (NAME, "other.dev", NAME)
            ]
            assert codes == ["ok", "tls_error", "ok"]
            assert len(server.heads) == 2

    run(trial())


def test_a_translator_of_this_network_is_no_public_address(
    run: Run, context: ssl.SSLContext, authority: Authority
) -> None:
    """2606:4700:64::/96 would be public, but a translator maps it to 127.0.0.1 here (RFC 7050)."""

    def resolver(name: str) -> Sequence[str]:
        return ("2606:4700:64::c000:aa",) if name == "ipv4only.arpa" else ("2606:4700:64::7f00:1",)

    async def trial() -> None:
        async with leaving(RULE, resolver, authority.trust()) as egress:
            assert await egress.check("https://hooks.mysite.dev/in") == "endpoint_private"
            assert (await egress.post("https://hooks.mysite.dev/in", b"", HEADERS)).code == "blocked_address"
        async with leaving(RULE, Names({NAME: [("2606:4700:64::7f00:1",)]}), authority.trust()) as egress:
            assert await egress.check("https://hooks.mysite.dev/in") == "ok"

    run(trial())


def test_an_admitted_host_may_be_inside_and_have_an_authority_of_its_own(
    run: Run, context: ssl.SSLContext, authority: Authority
) -> None:
    async def trial() -> None:
        async with serving(kind, context, "127.0.0.1") as inside:
            names = Names({NAME: [("127.0.0.1",)]})
            rule = read_rule("", f"{NAME}:{inside.port},127.0.0.1:{inside.port}")
            async with leaving(rule, names, system_trust(), private_trust=authority.trust()) as egress:
                for host in (NAME, "127.0.0.1"):
                    assert await egress.check(inside.url(host)) == "ok"
                    assert (await egress.post(inside.url(host), b"{}", HEADERS)).code == "ok"
                assert (
                    await egress.post(inside.url("other.mysite.dev"), b"{}", HEADERS)
                ).code == "endpoint_port"
            async with leaving(rule, names, system_trust()) as egress:
                assert (await egress.post(inside.url(), b"{}", HEADERS)).code == "tls_error"
            denied = UrlRule(rule.own_hosts, rule.admitted, (ip_network("127.0.0.0/8"),))
            async with leaving(denied, names, authority.trust()) as egress:
                assert (await egress.post(inside.url(), b"{}", HEADERS)).code == "blocked_address"
            assert len(inside.heads) == 2

    run(trial())


def test_connection_errors_are_named(run: Run, context: ssl.SSLContext, authority: Authority) -> None:
    async def gone(visit: Visit) -> None:
        await visit.request()

    async def cut(visit: Visit) -> None:
        await visit.request()
        await visit.say(b"HTTP/1.1 200 OK\r\nContent-Le")

    async def short(visit: Visit) -> None:
        await visit.request()
        await visit.say(b"HTTP/1.1 503 No\r\nContent-Length: 100\r\n\r\nsome of it")

    async def hang_up(visit: Visit) -> None:
        visit.writer.transport.abort()

    trust = authority.trust()
    assert run(meet(gone, context, trust))[0].code == "connection_lost"
    assert run(meet(cut, context, trust))[0].code == "connection_lost"
    reply = run(meet(short, context, trust))[0]
    assert (reply.code, reply.status, reply.body) == ("ok", 503, b"some of it")
    assert run(meet(hang_up, None, trust))[0].code == "tls_error"

    async def trial() -> None:
        async with serving(kind, context) as server:
            pass

        def nowhere(_name: str) -> Sequence[str]:
            return ()

        def no_number(_name: str) -> Sequence[str]:
            return ("no address",)

        def not_found(_name: str) -> Sequence[str]:
            raise OSError

        async with leaving(RULE, Names(), trust) as egress:
            reply = await egress.post(server.url(), b"{}", HEADERS)
            assert (reply.code, [name for name, _ in reply.phases_ms]) == (
                "connect_refused",
                ["dns", "connect"],
            )
            for address, code in (("http://mysite.dev/", "endpoint_not_https"), ("", "endpoint_invalid")):
                assert (await egress.post(address, b"", HEADERS)).code == await egress.check(address) == code
        for resolver in (not_found, nowhere, no_number):
            async with leaving(RULE, resolver, trust) as egress:
                assert (await egress.post(server.url(), b"{}", HEADERS)).code == "unresolvable"
                assert await egress.check(server.url()) == "unverified"

    run(trial())


def test_a_second_address_is_tried_where_the_first_does_not_answer(
    run: Run, context: ssl.SSLContext, authority: Authority
) -> None:
    async def trial() -> None:
        names = Names({NAME: [("127.0.0.3", "127.0.0.2")]})
        async with serving(kind, context) as server, leaving(RULE, names, authority.trust()) as egress:
            reply = await egress.post(server.url(), b"{}", HEADERS)
            assert reply.code == "ok"
            assert [name for name, _ in reply.phases_ms] == ["dns", "connect", "tls", "answer"]

    run(trial())


def test_simultaneous_requests_are_limited_and_cancelled_ones_release_slots(
    run: Run, context: ssl.SSLContext, authority: Authority
) -> None:
    async def trial() -> None:
        limits = Limits(connect_s=1, total_s=5, slot_wait_s=0.1, at_once=2)
        async with (
            serving(raw(), context) as server,
            leaving(RULE, Names(), authority.trust(), limits) as egress,
        ):
            first = [asyncio.create_task(egress.post(server.url(), b"{}", HEADERS)) for _ in range(2)]
            await until(lambda: len(server.heads) >= 2)
            assert (await egress.post(server.url(), b"{}", HEADERS)).code == "too_busy"
            for task in first:
                task.cancel()
            await asyncio.gather(*first, return_exceptions=True)
            assert all(task.cancelled() for task in first)
            async with serving(kind, context) as other:
                assert (await egress.post(other.url(), b"{}", HEADERS)).code == "ok"

    run(trial())


def test_requests_and_responses_are_not_logged(
    run: Run, context: ssl.SSLContext, authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    """No webhook URL is in any message that the loop or the client logs about such servers."""

    async def gone(visit: Visit) -> None:
        await visit.say(b"HTTP/1.1 400 planted-secret\r\n\r\n")

    async def trial() -> None:
        wrong = authority.context("other.dev")
        async with leaving(RULE, Names(), authority.trust()) as egress:
            for behaviour, server_context in (
                (raw(b"\x00" * 99), context),
                (kind, wrong),
                (gone, None),
                (kind, context),
            ):
                async with serving(behaviour, server_context) as server:
                    await egress.post(server.url(path="/planted-secret?token=planted-secret"), b"{}", HEADERS)

    with caplog.at_level("DEBUG"):
        run(trial())
    assert "planted-secret" not in caplog.text


def test_an_egress_that_was_never_used_closes(run: Run, authority: Authority) -> None:
    async def trial() -> None:
        async with leaving(RULE, Names(), authority.trust()) as egress:
            assert isinstance(egress, Egress)

    run(trial())
