"""An internet on loopback: a certificate authority, scripted servers, a URL rule and a resolver.

127.0.0.2 and 127.0.0.3 count as public addresses, 127.0.0.1 does not.
"""

import asyncio
import ipaddress
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from support.resolvers import Answers, ScriptedResolver

from outcry.base.clock import Clock
from outcry.delivery.egress import Egress, Limits
from outcry.delivery.resolver import GuardedResolver
from outcry.delivery.trust import system_trust
from outcry.delivery.url_rule import HTTPS_PORT, Destination, IpAddress, UrlRule, read_host

PUBLIC = frozenset(map(ipaddress.ip_address, ("127.0.0.2", "127.0.0.3")))
#: Limits for tests that end by themselves, and for tests of a deadline.
PATIENT, QUICK = Limits(connect_s=20.0, total_s=20.0), Limits(connect_s=20.0, total_s=0.6)
OK_ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
HEADERS = {"Content-Type": "application/json"}
#: Object identifiers in DER; they differ in the last octet only (RFC 8017, A.2.4).
_SHA256_WITH_RSA, _SHA1_WITH_RSA = (bytes.fromhex(f"2a864886f70d0101{last}") for last in ("0b", "05"))


class Authority:
    """A certificate authority, created anew each time. `path`: its certificate, for clients to trust."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._issued = folder, 0
        self._key = rsa.generate_private_key(65_537, 2048)
        self._name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "an authority of these tests")])
        made = self._builder(self._name, self._key).add_extension(x509.BasicConstraints(True, None), True)
        self.path = self._keep("authority", made.sign(self._key, hashes.SHA256()))

    def trust(self) -> ssl.SSLContext:
        """Return a client context that trusts this authority besides the system's."""
        return system_trust(str(self.path))

    def context(
        self, *names: str, expired: bool = False, self_signed: bool = False, sha1: bool = False
    ) -> ssl.SSLContext:  # fmt: skip
        """Return the TLS context of a server with these names."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.set_ciphers("ALL:@SECLEVEL=0")  # a test server may use insecure settings
        self.install(context, *names, expired=expired, self_signed=self_signed, sha1=sha1)
        return context

    def install(
        self, context: ssl.SSLContext, *names: str, expired: bool = False, self_signed: bool = False,
        sha1: bool = False,
    ) -> None:  # fmt: skip
        """Issue a certificate for these names and use it in a context, whose ticket keys stay."""
        self._issued += 1
        key = rsa.generate_private_key(65_537, 2048)
        subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, names[0])])
        alternatives = x509.SubjectAlternativeName([_general(name) for name in names])
        made = self._builder(subject, key, expired=expired, issuer=subject if self_signed else None)
        signer = key if self_signed else self._key
        signed = made.add_extension(alternatives, False).sign(signer, hashes.SHA256())
        path = self._keep(f"server{self._issued}", signed)
        if sha1:
            path.write_text(ssl.DER_cert_to_PEM_cert(_with_sha1(signed, signer)))
        secret = path.with_suffix(".key")
        secret.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        context.load_cert_chain(path, secret)

    def _builder(
        self, subject: x509.Name, key: rsa.RSAPrivateKey, *, expired: bool = False,
        issuer: x509.Name | None = None,
    ) -> x509.CertificateBuilder:  # fmt: skip
        now = datetime.now(UTC)  # noqa: TID251 - TLS itself goes by the machine's clock
        begin, end = (now - timedelta(days=2), now - timedelta(days=1)) if expired else (now, now)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(issuer or self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(begin - timedelta(hours=1))
            .not_valid_after(end if expired else end + timedelta(hours=1))
        )

    def _keep(self, name: str, made: x509.Certificate) -> Path:
        path = self._folder / f"{name}.pem"
        path.write_bytes(made.public_bytes(serialization.Encoding.PEM))
        return path


def _with_sha1(made: x509.Certificate, signer: rsa.RSAPrivateKey) -> bytes:
    """Return the certificate signed with SHA-1, which the library for certificates refuses to do."""
    unsigned = made.tbs_certificate_bytes.replace(_SHA256_WITH_RSA, _SHA1_WITH_RSA)
    signature = signer.sign(unsigned, padding.PKCS1v15(), hashes.SHA1())
    whole = made.public_bytes(serialization.Encoding.DER).replace(_SHA256_WITH_RSA, _SHA1_WITH_RSA)
    return whole[: -len(signature)] + signature


def _general(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


@dataclass(frozen=True, slots=True)
class OutsideRule(UrlRule):
    """The rule with any port as 443 and the addresses of `PUBLIC` as public.

    It cannot recognise private hosts before it connects."""

    def check(self, text: str) -> Destination | str:
        """See `UrlRule`."""
        read = read_host(text.removeprefix("https://").split("/")[0])
        if read is None or read[2] == HTTPS_PORT:
            return UrlRule.check(self, text)
        place = UrlRule(admitted={(read[0], read[2])}, denied_networks=self.denied_networks).check(text)
        return place if isinstance(place, str) else replace(place, admitted=False)

    def is_public(self, number: IpAddress) -> bool:
        """See `UrlRule`."""
        return (number in PUBLIC and not self.is_denied(number)) or UrlRule.is_public(self, number)


@dataclass
class Names:
    """Scripted name service.

    `answers`: of each name, in turn, and the last one repeatedly; `asked`: the queried names."""

    answers: dict[str, list[Sequence[str]]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    def __call__(self, name: str) -> Iterable[str]:
        if name == "ipv4only.arpa":
            raise OSError
        self.asked.append(name)
        answers = self.answers.get(name, [("127.0.0.2",)])
        return answers.pop(0) if len(answers) > 1 else answers[0]


@asynccontextmanager
async def leaving(
    rule: UrlRule, names: Answers, trust: ssl.SSLContext, limits: Limits = PATIENT,
    patience_s: float = 20.0, private_trust: ssl.SSLContext | None = None, clock: Clock | None = None,
) -> AsyncIterator[Egress]:  # fmt: skip
    """Open an egress for the duration of the context."""
    scripted = ScriptedResolver(names)
    resolver = GuardedResolver(rule, public=scripted, private=scripted, patience_s=patience_s)
    egress = Egress(resolver, trust, private_trust, limits, clock)
    try:
        yield egress
    finally:
        await egress.close()


@dataclass
class Server:
    """A server with scripted behaviour.

    `heads`: of the requests received; `reached`: its own address for each connection; `sent`: number of octets sent;
    `left`: released at the end of each connection."""

    port: int = 0
    heads: list[bytes] = field(default_factory=list)
    reached: list[str] = field(default_factory=list)
    sent: int = 0
    left: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(0))

    def url(self, host: str = "hooks.mysite.dev", path: str = "/in") -> str:
        return f"https://{host}:{self.port}{path}"


@dataclass
class Visit:
    """One connection to a server."""

    server: Server
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def request(self) -> bytes:
        """Read a request; return its body."""
        head = await self.reader.readuntil(b"\r\n\r\n")
        length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
        body = await self.reader.readexactly(int(length.partition(b":")[2]))
        self.server.heads.append(head)
        return body

    async def say(self, octets: bytes) -> None:
        self.writer.write(octets)
        await self.writer.drain()
        self.server.sent += len(octets)


Behaviour = Callable[[Visit], Awaitable[None]]


def raw(*parts: bytes, pause_s: float = 0.0) -> Behaviour:
    """Return a behaviour: read a request, send these bytes, and wait for the client to disconnect."""

    async def behave(visit: Visit) -> None:
        await visit.request()
        for part in parts:
            await visit.say(part)
            await asyncio.sleep(pause_s)
        await visit.reader.read(1)

    return behave


async def kind(visit: Visit) -> None:
    """Answer each request of a connection correctly."""
    while True:
        await visit.request()
        await visit.say(OK_ANSWER)


@asynccontextmanager
async def serving(
    behaviour: Behaviour, context: ssl.SSLContext | None, host: str = "127.0.0.2", port: int = 0
) -> AsyncIterator[Server]:
    """Run a server on loopback.

    `behaviour` gets each connection, after the handshake if there is a context."""
    server, running = Server(), set[asyncio.Task[None]]()

    async def meet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        running.add(task)
        server.reached.append(writer.get_extra_info("sockname")[0])
        try:
            await behaviour(Visit(server, reader, writer))
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # the client disconnected, or the test is over
        finally:
            server.left.release()
            running.discard(task)
            writer.transport.abort()

    listening = await asyncio.start_server(meet, host, port, ssl=context)
    server.port = listening.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        listening.close()
        for task in tuple(running):
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
