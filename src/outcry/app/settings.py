"""Settings of the operator. `OUTCRY_*` environment variables override a TOML file, which overrides the defaults.

Settings are read once and validated together. Unknown names and invalid values are rejected by name; so is a file with
a secret that other users can read. The TOML file is `outcry.toml` in the data folder, or the path in `OUTCRY_CONFIG`.
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

from outcry.base.folders import default_data_folder
from outcry.base.portable_files import is_open_to_others
from outcry.delivery.url_rule import read_rule
from outcry.people.email_address import is_email

#: Roles of a process: serve the API, serve pages, fold trades, run feeds, deliver alerts.
ROLES = frozenset({"api", "web", "engine", "feeds", "deliver"})
#: Settings that are secrets, or URLs that can contain a password.
_SECRETS = ("secret", "vault_keys", "oidc_client_secret", "smtp_url", "database_url", "cluster")
_VAULT_KEYS = "^([a-z0-9-]{1,32}:[0-9a-fA-F]{64}(,[a-z0-9-]{1,32}:[0-9a-fA-F]{64})*)?$"


class BadSettings(Exception):
    """An invalid setting. The message says which, where it was read, and what to do."""


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All settings. Each `name` is `OUTCRY_NAME` in the environment and `name` in TOML.

    data: folder of the database, tape and secret. host: IP address or host name to listen on. port: port to listen on.
    database_url: URL of PostgreSQL, such as `postgresql://user:password@host/outcry`; empty: SQLite in `data`.
    cluster: URLs of the NATS servers of a cluster, comma-separated, such as `nats://a:4222,nats://b:4222`; empty: a
    single process. role: roles of this process in a cluster, any of `api`, `web`, `engine`, `feeds`, `deliver`,
    comma-separated; empty: all.
    secret: secret for the hashes of API keys, 16 to 64 printable characters; empty: the file `secret.key` in `data`.
    vault_keys: keys that encrypt stored broker credentials, newest first, each 32 bytes in hexadecimal, such as
    `k2:…,k1:…`; empty: the file `vault.key` in `data`. fastpath: answer frequent requests before the web framework.
    trusted_proxies: IP addresses or networks of proxies whose `X-Forwarded-For` is trusted, comma-separated.
    connections_per_client: maximum open connections per client IP address (IPv6: per /64); 0: no limit; trusted proxies
    and this machine have no limit.
    open_metrics: allow access to `/metrics` from other machines.
    local_brokers: allow connections to brokers that run on this machine, such as TWS; enable it only if all users share
    this machine. feed_places: other addresses for vendors, such as your own proxy, by broker and the adapter's endpoint
    name: `{databento = {gateway = "10.0.0.5:13000"}}` in TOML, `databento.gateway=10.0.0.5:13000` in the environment.
    tail: Sierra Chart files to read as the operator's live feed while Sierra Chart writes them, comma-separated.
    public_url: public URL of this service, such as `https://outcry.example.com`, for links in emails, passkeys and
    webhooks. guests: show data that is granted to everyone to visitors who are not signed in.
    smtp_url: URL of the mail server, `smtp://user:password@mail.example.com:587` (STARTTLS) or `smtps://…`; empty: no
    email. mail_from: sender address of emails. oidc_issuer: issuer URL of the OpenID provider for sign-in; empty: none.
    oidc_client_id: client id of this service at the provider. oidc_client_secret: client secret; may be empty.
    oidc_name: name of the provider on the sign-in page.
    private_hosts: private hosts that webhooks may be sent to, for development, comma-separated, such as
    `sink.lan:8443,10.0.0.5`; the default port is 443. private_ca: PEM file with root certificates of these hosts, in
    addition to the system's.
    egress_denied: networks that webhooks are never sent to, such as this service's own public addresses,
    `198.51.100.7/32,2001:db8::/32`.
    push_quota_mib: storage for one user's pushed feeds and recordings, in MiB; users see a warning at 80 %; 0: no
    limit. push_streams: maximum streams (one per feed and contract) that one user may push.
    disk_reserve_mib: free disk space in `data`, in MiB, below which pushes, imports and replays are rejected, so that
    alerts, deliveries and sign-ins keep working; 0: no reserve.
    query_timeout_s: seconds before an answer fails with 502 because the database does not respond; 0 means 2, in a
    cluster 0.9.
    session_variants: other regular hours for some products, `{ES = "cash"}` in TOML, `ES=cash,NQ=cash` in the
    environment.
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
        """Show the data folder only, because other fields are secrets."""
        return f"Settings(data={self.data!r})"

    @property
    def roles(self) -> frozenset[str]:
        """The roles that this process has in a cluster, such as `api` or `engine`."""
        return frozenset(filter(None, (one.strip() for one in self.role.split(",")))) or ROLES

    @property
    def patience_s(self) -> float:
        """How long to wait for the database, in seconds."""
        return self.query_timeout_s or (0.9 if self.cluster else 2.0)

    @property
    def folder(self) -> Path:
        """The data folder."""
        return Path(self.data)


def read_settings(environment: Mapping[str, str] | None = None, **given: Any) -> Settings:
    """Read the settings. given: command-line options, which override everything; None means not given.

    Raises `BadSettings`.
    """
    environment = os.environ if environment is None else environment
    from_options = {name: value for name, value in given.items() if value is not None}
    names = {field.name for field in msgspec.structs.fields(Settings)}
    from_environment = {
        key.removeprefix("OUTCRY_").lower(): value
        for key, value in environment.items()
        if key.startswith("OUTCRY_")
    }
    for other in ("url", "key", "databento_key", "config"):  # variables that are not settings
        from_environment.pop(other, None)
    data = str(from_options.get("data") or from_environment.get("data") or "")
    folder = data or str(default_data_folder(environment))
    path = Path(environment.get("OUTCRY_CONFIG") or Path(folder) / "outcry.toml")
    if "OUTCRY_CONFIG" in environment and not path.is_file():
        raise BadSettings(
            f"OUTCRY_CONFIG: {path} does not exist or is not a file. Set it to the path of a TOML file."
        )
    unknown = sorted(set(from_environment) - names)
    if unknown:
        raise BadSettings(
            f"OUTCRY_{unknown[0].upper()} is not a setting. Unset it, or use one of: {', '.join(sorted(names))}."
        )
    file = _from_file(path)
    if secrets := [name for name in _SECRETS if _is_secret(name, file.get(name))]:
        _refuse_readable(path, secrets[0])
    merged: dict[str, Any] = file | {name: _shaped(name, value) for name, value in from_environment.items()}
    merged |= from_options
    merged["data"] = data or merged.get("data") or folder
    try:
        settings = msgspec.convert(merged, Settings, strict=False)
        for proxy in filter(None, settings.trusted_proxies.split(",")):
            ip_network(proxy.strip())
        _refuse_halves(settings)
        _refuse_unread_roots(settings)
        _refuse_unread_addresses(settings)
        read_rule(settings.public_url, settings.private_hosts, settings.egress_denied)
    except ValueError as problem:  # includes msgspec's errors
        raise BadSettings(f"Invalid settings (environment or {path}): {problem}") from problem
    return settings


def _refuse_halves(settings: Settings) -> None:
    """Check that settings which need each other are set together. Raises `ValueError`."""
    if unknown := sorted(settings.roles - ROLES):
        raise ValueError(f"role: unknown role {unknown[0]!r}. Use {', '.join(sorted(ROLES))}")
    if settings.cluster and not settings.database_url.startswith("postgresql"):
        raise ValueError("cluster needs database_url: the processes of a cluster share a PostgreSQL database")
    if settings.roles != ROLES and not settings.cluster:
        raise ValueError(
            "role needs cluster: a single process has all roles. Set cluster, or leave role empty"
        )
    if settings.smtp_url and not (settings.mail_from and settings.public_url):
        raise ValueError(
            "smtp_url needs mail_from (the sender) and public_url (for links in emails). Set both"
        )
    if settings.mail_from and not is_email(settings.mail_from):
        raise ValueError(f"mail_from: {settings.mail_from!r} is not an email address")
    if settings.oidc_issuer and not (settings.oidc_client_id and settings.public_url):
        raise ValueError(
            "oidc_issuer needs oidc_client_id and public_url (for the redirect from the provider). Set both"
        )


def _refuse_unread_roots(settings: Settings) -> None:
    """Check that the file of root certificates can be read. Raises `ValueError` if not."""
    if settings.private_ca:
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(settings.private_ca)
        except OSError as problem:  # ssl.SSLError is one
            raise ValueError(
                f"private_ca: {settings.private_ca} is not a readable file with PEM certificates ({problem})"
            ) from None


def _refuse_unread_addresses(settings: Settings) -> None:
    """Check the form of the URLs of the NATS servers. Raises `ValueError`.

    The error repeats no part of a URL: with wrong quoting, a password can end up in any part.
    """
    for address in filter(None, settings.cluster.split(",")):
        try:
            parts = urlsplit(address)
            found = bool(parts.hostname) and parts.port != 0 and not (parts.query or parts.fragment)
        except ValueError:
            found = False
        if not found:
            raise ValueError(
                "cluster: a URL has no host or an invalid port. In user names and passwords write # as %23 and ? as %3F"
            )


def _from_file(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as problem:
        raise BadSettings(f"{path}: {problem}") from problem


def _is_secret(name: str, value: Any) -> bool:
    """Return whether a setting's value contains a secret, such as a password.

    A URL contains a secret if it has a password. A NATS URL may also have a token in place of the user name.
    """
    if not isinstance(value, str) or "://" not in value:
        return bool(value)
    before_host = value.partition("://")[2].rpartition("@")[0]
    return bool(before_host) and (name == "cluster" or ":" in before_host)


def _refuse_readable(path: Path, name: str) -> None:
    """Reject a file with a secret that other users can access. Raises `BadSettings`."""
    if is_open_to_others(path):
        mode = stat.S_IMODE(path.stat().st_mode)
        raise BadSettings(
            f"{path} contains a secret ({name}), but other users can access it (mode {mode:03o}). Run: chmod 600 {path}"
        )


def _shaped(name: str, value: str) -> Any:
    if name == "session_variants":
        pairs = [pair.partition("=") for pair in value.split(",") if pair.strip()]
        return {root.strip().upper(): variant.strip() for root, _, variant in pairs}
    if name == "feed_places":
        return _places(value)
    return value


def _places(value: str) -> dict[str, dict[str, str]]:
    """Parse `broker.endpoint=address` pairs: addresses to connect to instead of the vendors' own.

    Return addresses by broker and endpoint.
    """
    found: dict[str, dict[str, str]] = {}
    for pair in filter(None, (pair.strip() for pair in value.split(","))):
        named, _, address = pair.partition("=")
        broker, _, place = named.partition(".")
        found.setdefault(broker.strip(), {})[place.strip()] = address.strip()
    return found
