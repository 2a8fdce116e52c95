"""Read and validate the agent's configuration file: the service, its key and the feeds.

Errors that can be found without the network are reported before the agent connects, with the place in the file and the
remedy. A file with secrets must be readable by its owner only. No error message contains a secret.
"""

import re
import ssl
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

from outcry.access.key_format import is_well_formed
from outcry.agent.http_transport import ServiceEndpoint
from outcry.base.folders import default_configuration_folder
from outcry.base.host_names import is_loopback_name
from outcry.base.portable_files import is_open_to_others, write_private
from outcry.cli.agent_feeds import BadConfig, Means, Planned, holds_secrets, planned, refuse_twins

_SIZE = re.compile(r"([0-9]{1,9}) ?(MB|GB)", re.ASCII)
_BYTES = {"MB": 10**6, "GB": 10**9}
_LEAST_SPOOL = 64 * 10**6


class AgentConfig(msgspec.Struct, forbid_unknown_fields=True):
    """The configuration file as written. Relative paths start at its folder."""

    service: str
    key: str = ""
    key_file: str = ""
    ca: str = ""
    spool: str = "spool"
    spool_limit: str = "2 GB"
    feed: list[dict[str, Any]] = []


@dataclass(frozen=True, slots=True)
class Plan:
    """The validated configuration of an agent."""

    service: ServiceEndpoint
    spool: Path
    spool_limit_bytes: int
    feeds: tuple[Planned, ...]


def read_plan(path: Path, environment: Mapping[str, str], means: Means, *, insecure: bool = False) -> Plan:
    """Read and validate the configuration file. insecure: allow HTTP without TLS to other hosts. Raises `BadConfig`."""
    try:
        config = msgspec.convert(tomllib.loads(path.read_text(encoding="utf-8")), AgentConfig)
    except FileNotFoundError:
        raise BadConfig(f"{path} does not exist. Create it with `outcry agent init {path}`.") from None
    except (
        OSError,
        ValueError,
    ) as problem:  # invalid TOML or an invalid field; neither message contains a value of a feed
        raise BadConfig(f"{path}: {problem}") from None
    folder = path.parent
    feeds = tuple(planned(number, table, folder, means) for number, table in enumerate(config.feed, start=1))
    if not feeds:
        raise BadConfig(f"{path} has no feed. Add a [[feed]] table.")
    refuse_twins(feeds, config.feed)
    if config.key or holds_secrets(config.feed, means):
        refuse_readable(path, "contains secrets")
    service = ServiceEndpoint(
        _address(config.service, insecure=insecure), _key(config, folder, environment), _trust(config, folder)
    )
    return Plan(service, folder / Path(config.spool).expanduser(), _limit_bytes(config.spool_limit), feeds)


def refuse_readable(path: Path, why: str) -> None:
    """Reject a file that other users can read. why: what the file contains, for the error. Raises `BadConfig`."""
    try:
        is_open = is_open_to_others(path)
    except OSError as problem:
        raise BadConfig(f"{path}: {problem.strerror}") from None
    if is_open:
        raise BadConfig(f"{path} {why} and is readable by other users. Run: chmod 600 {path}")


def _address(url: str, *, insecure: bool) -> str:
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname or parts.query or parts.fragment:
        raise BadConfig('service: Invalid URL. Use a form such as "https://outcry.example.com".')
    if parts.username or parts.password:
        raise BadConfig(
            "service: The URL contains a user name or password. Remove it; the agent signs in with its key."
        )
    if parts.scheme == "http" and not insecure and not is_loopback_name(parts.hostname):
        raise BadConfig(
            "service: http:// would send your key and trades unencrypted. Use https://, or pass --insecure if you "
            "trust the network."
        )
    return url.rstrip("/")


def _key(config: AgentConfig, folder: Path, environment: Mapping[str, str]) -> str:
    if config.key and config.key_file:
        raise BadConfig("key, key_file: Both are set. Remove one of them.")
    key = config.key or environment.get("OUTCRY_KEY", "")
    if config.key_file:
        path = folder / Path(config.key_file).expanduser()
        refuse_readable(path, "contains the key")
        try:
            key = path.read_text(encoding="utf-8").strip()
        except (OSError, ValueError) as problem:
            raise BadConfig(f"key_file: {path} cannot be read ({type(problem).__name__}).") from None
    if not key:
        raise BadConfig(
            "No key. Create a key for pushing on the service's Account page, or with `outcry keys create --email "
            "you@example.com --ingest`. Put it into key_file or OUTCRY_KEY."
        )
    if not is_well_formed(key):
        raise BadConfig("Invalid key: keys start with outcry_ and have 56 characters. Copy the whole key.")
    return key


def _trust(config: AgentConfig, folder: Path) -> ssl.SSLContext | None:
    if not config.ca:
        return None
    path = folder / Path(config.ca).expanduser()
    trust = ssl.create_default_context()
    try:
        trust.load_verify_locations(path)
    except (OSError, ssl.SSLError):
        raise BadConfig(f"ca: {path} contains no PEM certificates.") from None
    return trust


def _limit_bytes(text: str) -> int:
    found = _SIZE.fullmatch(text.strip())
    size = int(found[1]) * _BYTES[found[2]] if found else 0
    if size < _LEAST_SPOOL:
        raise BadConfig(
            f'spool_limit: Invalid size {text[:20]!r}. Use at least 64 MB, such as "500 MB" or "2 GB".'
        )
    return size


def default_path(environment: Mapping[str, str]) -> Path:
    """Return the default path of the configuration file."""
    return default_configuration_folder(environment) / "agent.toml"


def write_config(path: Path, text: str) -> None:
    """Write a configuration file that only its owner can read. Raises `FileExistsError`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_private(path, text)
