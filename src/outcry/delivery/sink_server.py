"""HTTPS server of the demo's webhook receiver, on a free port of the loopback address.

Each start creates a certificate and the authority that signs it. The authority's key is then discarded, so a program
that trusts this authority trusts only this certificate. Bodies are read up to their limit. A separate thread and event
loop prevent slow responses from delaying the service.
"""

import asyncio
import ipaddress
import ssl
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from socket import AF_INET, SO_REUSEADDR, SOCK_STREAM, SOL_SOCKET, socket

from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from outcry.base.clock import Clock
from outcry.base.portable_files import WINDOWS
from outcry.delivery.sink import LONGEST_BODY_BYTES, STATUSES, Manner, Sink
from outcry.market.units import NANOS_PER_SECOND

HOST = "localhost"
PATH = "/in"
CERTIFICATE_FILE, AUTHORITY_FILE, PORT_FILE = "sink.pem", "sink-authority.pem", "sink-port"
#: Longer than a sender waits for a response.
SLOW_S = 20.0
_BUSY_S = 30
#: How long open responses are awaited at the end. aiohttp takes 0 for no limit.
_PATIENCE_S = 0.2
_LASTS = timedelta(days=365)
_ELSEWHERE = "https://elsewhere.example.com/"
_LOOPBACK = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Receiver:
    """A running webhook receiver of the demo.

    `host`: host and port, for the operator's list of allowed private hosts. `authority`: file with the certificate
    authority's certificate.
    """

    sink: Sink
    host: str
    authority: Path


@contextmanager
def receiver(folder: Path, clock: Clock, slow_s: float = SLOW_S) -> Generator[Receiver]:
    """Run the webhook receiver of the demo until the block ends. Raises `OSError`.

    folder: where its certificate is stored.
    """
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    context = _certified(folder, clock)
    with socket(AF_INET, SOCK_STREAM) as bound:
        _bind(bound, folder / PORT_FILE)
        host = f"{HOST}:{bound.getsockname()[1]}"
        sink = Sink(f"https://{host}{PATH}", clock)
        with _running(_Listener(sink, slow_s), bound, context):
            yield Receiver(sink, host, folder / AUTHORITY_FILE)


def _bind(bound: socket, socket_path: Path) -> None:
    """Bind the port that the receiver used before its last restart, or a free port if that one is in use.

    With the same port, existing webhooks stay valid.
    """
    before = socket_path.read_text("ascii") if socket_path.is_file() else ""
    if not WINDOWS:  # where two processes could then use one port
        bound.setsockopt(SOL_SOCKET, SO_REUSEADDR, 1)  # connections in TIME_WAIT do not block it
    try:
        bound.bind((_LOOPBACK, int(before)))
    except (OSError, OverflowError, ValueError):
        bound.bind((_LOOPBACK, 0))
    socket_path.write_text(str(bound.getsockname()[1]), "ascii")


class _Listener:
    """Request handler of the receiver; it responds as the response mode demands."""

    def __init__(self, sink: Sink, slow_s: float) -> None:
        self._sink, self._slow_s = sink, slow_s

    def application(self) -> web.Application:
        """Return the web application, which receives deliveries at one URL."""
        made = web.Application(client_max_size=LONGEST_BODY_BYTES)
        made.router.add_post(PATH, self.take)
        return made

    async def take(self, request: web.Request) -> web.Response:
        """Handle one delivery. A body longer than `client_max_size` gets status 413."""
        body = await request.read()
        manner = self._sink.take(list(request.headers.items()), body)
        status = STATUSES[manner]
        if status is None:
            transport = request.transport
            try:
                await asyncio.sleep(self._slow_s)
            except asyncio.CancelledError:  # the receiver stops: open requests are aborted
                if transport is not None:
                    transport.abort()
                raise
            return web.Response(text="late")
        headers = {
            Manner.REDIRECT: {"location": _ELSEWHERE},
            Manner.BUSY: {"retry-after": str(_BUSY_S)},
        }
        text = "received" if manner is Manner.WELL else f"simulated status {status}"
        return web.Response(status=status, text=text, headers=headers.get(manner))


@contextmanager
def _running(listener: _Listener, bound: socket, context: ssl.SSLContext) -> Generator[None]:
    """Serve in a separate thread until the block ends."""
    up, failures = threading.Event(), list[Exception]()
    end: list[Callable[[], object]] = []

    async def serve() -> None:
        ended = asyncio.Event()
        end.append(partial(asyncio.get_running_loop().call_soon_threadsafe, ended.set))
        runner = web.AppRunner(listener.application(), access_log=None, shutdown_timeout=_PATIENCE_S)
        try:
            await runner.setup()
            await web.SockSite(runner, bound, ssl_context=context).start()
            up.set()
            await ended.wait()
        except OSError as problem:
            failures.append(problem)
        finally:
            await runner.cleanup()
            # aiohttp releases connections only some time after they are closed.
            await asyncio.sleep(_PATIENCE_S)
            up.set()

    thread = threading.Thread(target=asyncio.run, args=(serve(),), name="sink", daemon=True)
    thread.start()
    up.wait()
    try:
        if failures:
            raise failures[0]
        yield
    finally:
        if thread.is_alive():
            end[0]()
        thread.join()


def _certified(folder: Path, clock: Clock) -> ssl.SSLContext:
    """Create a certificate and its authority, and return the TLS context of the server.

    Programs that must trust the receiver read the authority's file. Only the file owner can read the certificate's key.
    """
    now = datetime.fromtimestamp(clock.now_ns() // NANOS_PER_SECOND, UTC)
    authority_key, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    issuer, subject = _name("Outcry demo"), _name(HOST)
    names = x509.SubjectAlternativeName([x509.DNSName(HOST), x509.IPAddress(ipaddress.ip_address(_LOOPBACK))])
    issued = x509.SubjectKeyIdentifier.from_public_key(authority_key.public_key())
    authority = (
        _begun(issuer, issuer, authority_key.public_key(), now)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .add_extension(issued, critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    made = (
        _begun(issuer, subject, key.public_key(), now)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(names, critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(issued), critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    _keep(folder / AUTHORITY_FILE, authority.public_bytes(serialization.Encoding.PEM))
    _keep(folder / CERTIFICATE_FILE, secret + made.public_bytes(serialization.Encoding.PEM))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / CERTIFICATE_FILE)
    return context


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, text)])


def _begun(
    issuer: x509.Name, subject: x509.Name, key: ec.EllipticCurvePublicKey, now: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .issuer_name(issuer)
        .subject_name(subject)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + _LASTS)
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates, key_cert_sign=signs_certificates, crl_sign=False,
        content_commitment=False, key_encipherment=False, data_encipherment=False, key_agreement=False,
        encipher_only=False, decipher_only=False,
    )  # fmt: skip


def _keep(path: Path, content: bytes) -> None:
    """Write a file that only its owner can read.

    The file is created with this permission, so that other users can never read it.
    """
    path.unlink(missing_ok=True)
    path.touch(mode=0o600)
    path.write_bytes(content)
