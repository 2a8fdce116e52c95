"""Where the service is: the address a browser takes, and the file by which the other commands find a running one.

Rule kept: while it answers the data folder says where, in `address`; the file goes when the service stops. One that was
killed leaves it behind, and the next start writes it anew.
"""

import os
from ipaddress import ip_address
from pathlib import Path

from outcry.settings import Settings, read_settings

ADDRESS_FILE = "address"
_DEMO = "-demo"


def address(host: str, port: int) -> str:
    """An address as a browser takes it; this machine by name, not number, for passkeys belong to names."""
    if _is_here(host):
        return f"http://localhost:{port}"
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def demo_folder(folder: Path) -> Path:
    """The folder of a demonstration: beside the usual one."""
    return folder.with_name(folder.name + _DEMO)


def say(folder: Path, at: str) -> None:
    """The service of a folder answers now."""
    (folder / ADDRESS_FILE).write_text(at + "\n")


def unsay(folder: Path) -> None:
    """It is about to stop."""
    (folder / ADDRESS_FILE).unlink(missing_ok=True)


def running(folder: Path) -> str:
    """Where the service of a folder says that it answers; empty if it says nothing."""
    try:
        return (folder / ADDRESS_FILE).read_text().strip()
    except OSError:  # there is none, or it is not ours to read
        return ""


def service(url: str | None, data: str | None = None) -> str:
    """Where to ask: what was said with the command or in OUTCRY_URL, else where the service of the data folder, or the
    demonstration beside it, answers, else where the settings put it."""
    if named := url or os.environ.get("OUTCRY_URL"):
        return named
    settings = read_settings(data=data)
    folder = settings.folder
    return running(folder) or running(demo_folder(folder)) or _configured(settings)


def site(settings: Settings) -> str:
    """What a link printed on this machine begins with where there is no `public_url`."""
    return running(settings.folder) or address("localhost", settings.port)


def _configured(settings: Settings) -> str:
    return settings.public_url or address(settings.host, settings.port)


def _is_here(host: str) -> bool:
    """Whether it is this machine: its loopback, or every address it has."""
    try:
        number = ip_address(host)
    except ValueError:
        return host == "localhost"
    return number.is_loopback or number.is_unspecified
