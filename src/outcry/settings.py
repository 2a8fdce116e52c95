"""What an operator can set: `OUTCRY_*` variables, over a TOML file, over the defaults.

Rule kept: read once, checked whole; an unknown name or a value of the wrong kind is refused with its name, and a file
that holds a secret where others can read it. The TOML file is `outcry.toml` in the data folder, or whatever
`OUTCRY_CONFIG` names.
"""

import os
import ssl
import stat
import tomllib
from collections.abc import Mapping
from ipaddress import ip_network
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

import msgspec

from outcry.accounts.emails import is_email
from outcry.deliver.address import read_rule

#: What a process can do of the service: answer, show pages, fold trades, follow feeds, deliver alerts.
ROLES = frozenset({"api", "web", "engine", "feeds", "deliver"})
#: Settings that are secrets, or addresses that a password can be written in.
_SECRETS = ("secret", "vault_keys", "oidc_client_secret", "smtp_url", "database_url", "cluster")
_VAULT_KEYS = "^([a-z0-9-]{1,32}:[0-9a-fA-F]{64}(,[a-z0-9-]{1,32}:[0-9a-fA-F]{64})*)?$"


class BadSettings(Exception):
    """A setting that cannot be used: says which, where it was read, and why."""


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All settings. Each `name` is `OUTCRY_NAME` in the environment and `name` in TOML.

    data: folder of the database, tape and secret. host, port: where to serve. database_url: SQLAlchemy address, as
    `postgresql://user:password@host/outcry`, empty for SQLite in `data`. cluster: addresses of the NATS servers that
    several processes work together by, `nats://a:4222,nats://b:4222`; empty: this process does everything. role: what
    this process does of it, any of `api`, `web`, `engine`, `feeds`, `deliver`, comma-separated; empty: all.
    secret: what key digests are made with (16 to 64 printable characters), empty for the file `secret.key` in `data`.
    vault_keys: keys that what people entered for their connections is sealed under,
    `k2:…,k1:…`, the newest first, each 32 bytes in hexadecimal; empty for the file `vault.key` in `data`. fastpath:
    answer hot requests before the framework. trusted_proxies: addresses whose `X-Forwarded-For` is believed.
    connections_per_client: connections that one client address (IPv6: its /64) may have open at a time, 0 for any
    number; trusted proxies and this machine may have any number.
    open_metrics: let others than this machine read `/metrics`.
    local_brokers: connect also brokers that are reached on the users' own machine, for a service that runs there, for
    nobody else's. feed_places: where vendors are reached instead of their own addresses, such as a proxy of yours, by
    broker and the adapter's name for the place: `{databento = {gateway = "10.0.0.5:13000"}}` in TOML,
    `databento.gateway=10.0.0.5:13000` in the environment.
    tail: Sierra Chart files to follow as the operator's live feed while they grow, comma-separated.
    public_url: where people reach this service, `https://outcry.example.com`; for links in mail, passkeys and webhooks.
    guests: let people who are not signed in see, on the pages, what is granted to everyone.
    smtp_url: server that mail is handed to, `smtp://user:password@mail.example.com:587` (STARTTLS) or `smtps://…`;
    empty: no mail. mail_from: address mail comes from. oidc_issuer: OpenID provider people may sign in by, as it names
    itself; empty: none. oidc_client_id, oidc_client_secret: what this service is registered as there; the secret
    may be empty. oidc_name: what the sign-in page calls the provider.
    private_hosts: hosts that webhooks may be sent to though they are not public, `sink.lan:8443,10.0.0.5`, 443 where no
    port is given; for development. private_ca: PEM file with the roots that vouch for these, beside the system's.
    egress_denied: networks that no webhook is sent to, this service's own public addresses above all,
    `198.51.100.7/32,2001:db8::/32`.
    push_quota_mib: what one user's pushed feeds and recordings may fill of the disk, in MiB; a user is warned from
    80 % on; 0: as much as fits. push_streams: streams (a feed and a contract each) that one user may push.
    disk_reserve_mib: room on the disk of `data`, in MiB, below which pushes, imports and replays are refused, so that
    alerts, deliveries and sign-ins go on; 0: none.
    query_timeout_s: how long the store may be silent before an answer is 502; 0: 2, in a cluster 0.9.
    session_variants: other regular hours for some roots, `{ES = "cash"}` in TOML, `ES=cash,NQ=cash` in the environment.
    """

    data: str = ""
    host: Annotated[str, msgspec.Meta(min_length=1, max_length=253)] = "127.0.0.1"
    port: Annotated[int, msgspec.Meta(ge=0, le=65_535)] = 8000
    database_url: str = ""
    cluster: Annotated[str, msgspec.Meta(pattern="^((nats|tls)://[^/ ,]+(,(nats|tls)://[^/ ,]+)*)?$")] = ""
    role: str = ""
    secret: Annotated[str, msgspec.Meta(pattern="^([!-~]{16,64})?$")] = ""
    vault_keys: Annotated[str, msgspec.Meta(pattern=_VAULT_KEYS)] = ""
    fastpath: bool = True
    trusted_proxies: str = ""
    connections_per_client: Annotated[int, msgspec.Meta(ge=0, le=65_535)] = 512
    open_metrics: bool = False
    local_brokers: bool = False
    feed_places: dict[str, dict[str, str]] = {}
    tail: str = ""
    public_url: Annotated[str, msgspec.Meta(pattern="^(https?://[^/ ]+)?$")] = ""
    guests: bool = False
    smtp_url: Annotated[str, msgspec.Meta(pattern="^(smtps?://[^/ ]+)?$")] = ""
    mail_from: Annotated[str, msgspec.Meta(pattern="^([^@\\s]+@[^@\\s]+)?$", max_length=254)] = ""
    oidc_issuer: Annotated[str, msgspec.Meta(pattern="^(https?://[^ ?#]+)?$")] = ""
    oidc_client_id: str = ""
    oidc_client_secret: str = ""
    oidc_name: Annotated[str, msgspec.Meta(min_length=1, max_length=40)] = "OpenID"
    private_hosts: str = ""
    private_ca: str = ""
    egress_denied: str = ""
    push_quota_mib: Annotated[int, msgspec.Meta(ge=0, le=1_073_741_824)] = 10_240
    push_streams: Annotated[int, msgspec.Meta(ge=1, le=256)] = 64
    disk_reserve_mib: Annotated[int, msgspec.Meta(ge=0, le=1_048_576)] = 1024
    query_timeout_s: Annotated[float, msgspec.Meta(ge=0, le=60)] = 0.0
    session_variants: dict[str, str] = {}

    def __repr__(self) -> str:
        """Where the data is, and none of the secrets beside it."""
        return f"Settings(data={self.data!r})"

    @property
    def roles(self) -> frozenset[str]:
        """What this process does."""
        return frozenset(filter(None, (one.strip() for one in self.role.split(",")))) or ROLES

    @property
    def patience_s(self) -> float:
        """How long a slow store is waited for."""
        return self.query_timeout_s or (0.9 if self.cluster else 2.0)

    @property
    def folder(self) -> Path:
        """The data folder."""
        return Path(self.data)


def default_data_folder(environment: Mapping[str, str]) -> Path:
    """Where data goes unless told: the user's own data folder."""
    home = environment.get("XDG_DATA_HOME") or str(Path.home() / ".local" / "share")
    return Path(home) / "outcry"


def read_settings(environment: Mapping[str, str] | None = None, **given: Any) -> Settings:
    """Read the settings; `given` (from the command line, None for not given) goes over everything.

    Raises `BadSettings`.
    """
    environment = os.environ if environment is None else environment
    spoken = {name: value for name, value in given.items() if value is not None}
    names = {field.name for field in msgspec.structs.fields(Settings)}
    said = {
        key.removeprefix("OUTCRY_").lower(): value
        for key, value in environment.items()
        if key.startswith("OUTCRY_")
    }
    for other in ("url", "key", "databento_key", "config"):  # those of commands, and the file's own
        said.pop(other, None)
    data = str(spoken.get("data") or said.get("data") or "")
    folder = data or str(default_data_folder(environment))
    path = Path(environment.get("OUTCRY_CONFIG") or Path(folder) / "outcry.toml")
    if "OUTCRY_CONFIG" in environment and not path.is_file():
        raise BadSettings(f"OUTCRY_CONFIG names {path}, which is no file")
    unknown = sorted(set(said) - names)
    if unknown:
        raise BadSettings(f"OUTCRY_{unknown[0].upper()} is no setting; there are: {', '.join(sorted(names))}")
    file = _from_file(path)
    if secrets := [name for name in _SECRETS if _is_secret(name, file.get(name))]:
        _refuse_readable(path, secrets[0])
    merged: dict[str, Any] = file | {name: _shaped(name, value) for name, value in said.items()}
    merged |= spoken
    merged["data"] = data or merged.get("data") or folder
    try:
        settings = msgspec.convert(merged, Settings, strict=False)
        for proxy in filter(None, settings.trusted_proxies.split(",")):
            ip_network(proxy.strip())
        _refuse_halves(settings)
        read_rule(settings.public_url, settings.private_hosts, settings.egress_denied)
        _refuse_unread_roots(settings)
        _refuse_unread_addresses(settings)
    except ValueError as problem:  # msgspec's own errors are values' errors too
        raise BadSettings(f"settings (environment, {path}): {problem}") from problem
    return settings


def _refuse_halves(settings: Settings) -> None:
    """What is of use only together is set together. Raises `ValueError`."""
    if unknown := sorted(settings.roles - ROLES):
        raise ValueError(f"role: {unknown[0]!r} is none; there are {', '.join(sorted(ROLES))}")
    if settings.cluster and not settings.database_url.startswith("postgresql"):
        raise ValueError("cluster needs database_url, an address of PostgreSQL: several processes share it")
    if settings.roles != ROLES and not settings.cluster:
        raise ValueError("role needs cluster: a process by itself does everything")
    if settings.smtp_url and not (settings.mail_from and settings.public_url):
        raise ValueError("smtp_url needs mail_from, and public_url, which links in mail begin with")
    if settings.mail_from and not is_email(settings.mail_from):
        raise ValueError(f"mail_from: {settings.mail_from!r} is not an email address")
    if settings.oidc_issuer and not (settings.oidc_client_id and settings.public_url):
        raise ValueError(
            "oidc_issuer needs oidc_client_id, and public_url, where the provider sends people back to"
        )


def _refuse_unread_roots(settings: Settings) -> None:
    """A file of roots can be read. Raises `ValueError`."""
    if settings.private_ca:
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(settings.private_ca)
        except OSError as problem:  # ssl.SSLError is one
            raise ValueError(
                f"private_ca: {settings.private_ca} has no certificates in PEM form: {problem}"
            ) from None


def _refuse_unread_addresses(settings: Settings) -> None:
    """Servers of the cluster can be looked for. Raises `ValueError`, which repeats nothing of them: a password that was
    not written as addresses want it may be taken for any part."""
    for address in filter(None, settings.cluster.split(",")):
        try:
            parts = urlsplit(address)
            found = bool(parts.hostname) and parts.port != 0 and not (parts.query or parts.fragment)
        except ValueError:
            found = False
        if not found:
            raise ValueError(
                "cluster: an address has no host, or no port that can be; "
                "in names and passwords # is written %23, ? is %3F"
            )


def _from_file(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as problem:
        raise BadSettings(f"{path}: {problem}") from problem


def _is_secret(name: str, value: Any) -> bool:
    """Whether a setting that may hold a secret does: an address of a database or mail server by a password in it, one
    of a
    NATS server by a token too, which stands where others have a user."""
    if not isinstance(value, str) or "://" not in value:
        return bool(value)
    before_host = value.partition("://")[2].rpartition("@")[0]
    return bool(before_host) and (name == "cluster" or ":" in before_host)


def _refuse_readable(path: Path, name: str) -> None:
    """Refuse a file with a secret that others than its owner may read. Raises `BadSettings`."""
    if os.name == "nt":  # Windows has no such mode
        return
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & 0o077:
        raise BadSettings(
            f"{path} holds a secret ({name}) and its mode {mode:03o} lets others than its owner read or change it: "
            f"chmod 600 {path}"
        )


def _shaped(name: str, value: str) -> Any:
    if name == "session_variants":
        pairs = [pair.partition("=") for pair in value.split(",") if pair.strip()]
        return {root.strip().upper(): variant.strip() for root, _, variant in pairs}
    if name == "feed_places":
        return _places(value)
    return value


def _places(value: str) -> dict[str, dict[str, str]]:
    """`broker.place=address` pairs, by broker."""
    found: dict[str, dict[str, str]] = {}
    for pair in filter(None, (pair.strip() for pair in value.split(","))):
        named, _, address = pair.partition("=")
        broker, _, place = named.partition(".")
        found.setdefault(broker.strip(), {})[place.strip()] = address.strip()
    return found
