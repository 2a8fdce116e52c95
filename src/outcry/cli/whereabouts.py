"""The URL of a running service, and the file by which other commands find that URL.

While the service runs, the file `address` in its data folder contains its URL. The service deletes the file when it
stops. A killed service leaves the file behind, and the next start overwrites it.
"""

import os
from ipaddress import ip_address
from pathlib import Path

from outcry.app.settings import Settings, read_settings

ADDRESS_FILE = "address"
_DEMO, _MARKET = "-demo", "-hyperliquid"


def address(host: str, port: int) -> str:
    """Return the service's URL for a browser. This machine is named `localhost`, because passkeys need a host name."""
    if _is_here(host):
        return f"http://localhost:{port}"
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def demo_folder(folder: Path) -> Path:
    """Return the demo's data folder, next to the regular one."""
    return folder.with_name(folder.name + _DEMO)


def market_folder(folder: Path) -> Path:
    """Return the data folder of the free live market, next to the regular one."""
    return folder.with_name(folder.name + _MARKET)


def write_address(folder: Path, at: str) -> None:
    """Write the URL of the running service into a file in its data folder."""
    (folder / ADDRESS_FILE).write_text(at + "\n", encoding="utf-8", newline="\n")


def remove_address(folder: Path) -> None:
    """Delete the file with the URL of a stopping service."""
    (folder / ADDRESS_FILE).unlink(missing_ok=True)


def running(folder: Path) -> str:
    """Return the URL of the service that runs on a data folder, or an empty string."""
    try:
        return (folder / ADDRESS_FILE).read_text(encoding="utf-8").strip()
    except OSError:  # missing or not readable by this user
        return ""


def service(url: str | None, data: str | None = None) -> str:
    """Return the URL of the service to use.

    In order: the option, OUTCRY_URL, the service running on the data folder, the demo running next to it, the free
    market running next to it, the settings.
    """
    if named := url or os.environ.get("OUTCRY_URL"):
        return named
    settings = read_settings(data=data)
    folder = settings.folder
    beside = (folder, demo_folder(folder), market_folder(folder))
    return next(filter(None, map(running, beside)), "") or _configured(settings)


def site(settings: Settings) -> str:
    """Return the base URL for printed links without `public_url`: the running service's URL, or localhost."""
    return running(settings.folder) or address("localhost", settings.port)


def _configured(settings: Settings) -> str:
    return settings.public_url or address(settings.host, settings.port)


def _is_here(host: str) -> bool:
    """Return whether a host is this machine: a loopback IP address, or the wildcard of all interfaces."""
    try:
        number = ip_address(host)
    except ValueError:
        return host == "localhost"
    return number.is_loopback or number.is_unspecified
