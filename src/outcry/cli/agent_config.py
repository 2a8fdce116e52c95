"""The agent's file: which service, which key, which feeds; read and checked.

Rules kept: everything that can be seen to be wrong without asking anybody is said before anything is asked, with the
place in the file and what to write there; a file that holds secrets is its owner's alone; no message holds a secret.
"""

import os
import re
import ssl
import stat
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

from outcry.accounts.keys import is_well_formed
from outcry.cli.agent_feeds import BadConfig, Means, Planned, holds_secrets, planned, refuse_twins
from outcry.client.over_http import Service

_SIZE = re.compile(r"([0-9]{1,9}) ?(MB|GB)", re.ASCII)
_BYTES = {"MB": 10**6, "GB": 10**9}
_LEAST_SPOOL = 64 * 10**6


class AgentConfig(msgspec.Struct, forbid_unknown_fields=True):
    """The file as written. Paths are relative to its folder."""

    service: str
    key: str = ""
    key_file: str = ""
    ca: str = ""
    spool: str = "spool"
    spool_limit: str = "2 GB"
    feed: list[dict[str, Any]] = []


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything an agent needs."""

    service: Service
    spool: Path
    spool_limit_bytes: int
    feeds: tuple[Planned, ...]


def read_plan(path: Path, environment: Mapping[str, str], means: Means, *, insecure: bool = False) -> Plan:
    """Read and check a file. insecure: let it send trades and key unencrypted. Raises `BadConfig`."""
    try:
        config = msgspec.convert(tomllib.loads(path.read_text(encoding="utf-8")), AgentConfig)
    except FileNotFoundError:
        raise BadConfig(f"there is no {path}: write one with `outcry agent init {path}`") from None
    except (
        OSError,
        ValueError,
    ) as problem:  # a fault of TOML or of the form; neither shows a value of a feed
        raise BadConfig(f"{path}: {problem}") from None
    folder = path.parent
    feeds = tuple(planned(number, table, folder, means) for number, table in enumerate(config.feed, start=1))
    if not feeds:
        raise BadConfig(f"{path} names no feed: add a [[feed]] table")
    refuse_twins(feeds, config.feed)
    if config.key or holds_secrets(config.feed, means):
        refuse_readable(path, "it holds secrets")
    service = Service(
        _address(config.service, insecure=insecure), _key(config, folder, environment), _trust(config, folder)
    )
    return Plan(service, folder / Path(config.spool).expanduser(), _limit_bytes(config.spool_limit), feeds)


def refuse_readable(path: Path, why: str) -> None:
    """Refuse a file that others than its owner may read. Raises `BadConfig`."""
    if sys.platform == "win32":  # rights there are none of these bits
        return
    try:
        mode = path.stat().st_mode
    except OSError as problem:
        raise BadConfig(f"{path}: {problem.strerror}") from None
    if stat.S_IMODE(mode) & 0o077:
        raise BadConfig(f"{path} may be read by others, and {why}: chmod 600 {path}")


def _address(url: str, *, insecure: bool) -> str:
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname or parts.query or parts.fragment:
        raise BadConfig('service: an address such as "https://outcry.example.com" is meant')
    if parts.username or parts.password:
        raise BadConfig("service: no name or password belongs into the address; the key says who you are")
    if parts.scheme == "http" and not insecure and not _is_loopback(parts.hostname):
        raise BadConfig(
            "service: http:// would send your key and trades unencrypted over the network; use https://, or --insecure "
            "where the network is your own"
        )
    return url.rstrip("/")


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _key(config: AgentConfig, folder: Path, environment: Mapping[str, str]) -> str:
    if config.key and config.key_file:
        raise BadConfig("key and key_file: one of them is enough")
    key = config.key or environment.get("OUTCRY_KEY", "")
    if config.key_file:
        path = folder / Path(config.key_file).expanduser()
        refuse_readable(path, "it holds the key")
        try:
            key = path.read_text(encoding="utf-8").strip()
        except (OSError, ValueError) as problem:
            raise BadConfig(f"key_file {path}: {type(problem).__name__}") from None
    if not key:
        raise BadConfig(
            "there is no key: make one on the service's Account page, for pushing, or with `outcry keys create --email "
            "you@example.com --ingest`, and put it into key_file or OUTCRY_KEY"
        )
    if not is_well_formed(key):
        raise BadConfig("the key is none: it begins with outcry_ and has 56 characters; copy it whole")
    return key


def _trust(config: AgentConfig, folder: Path) -> ssl.SSLContext | None:
    if not config.ca:
        return None
    path = folder / Path(config.ca).expanduser()
    trust = ssl.create_default_context()
    try:
        trust.load_verify_locations(path)
    except (OSError, ssl.SSLError):
        raise BadConfig(f"ca: {path} holds no certificates in PEM form") from None
    return trust


def _limit_bytes(text: str) -> int:
    found = _SIZE.fullmatch(text.strip())
    size = int(found[1]) * _BYTES[found[2]] if found else 0
    if size < _LEAST_SPOOL:
        raise BadConfig('spool_limit: a size such as "500 MB" or "2 GB" is meant, and at least 64 MB')
    return size


def default_path(environment: Mapping[str, str]) -> Path:
    """Where the file is unless told."""
    home = environment.get("XDG_CONFIG_HOME") or str(Path.home() / ".config")
    return Path(home) / "outcry" / "agent.toml"


def write_private(path: Path, text: str) -> None:
    """Write a file that is its owner's alone. Raises `FileExistsError`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text)
