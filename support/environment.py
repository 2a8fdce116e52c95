"""Virtual environments with a distribution of this checkout and nothing else, as a user installs it."""

import json
import os
import re
import subprocess
import sys
import venv
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, sleep
from typing import Any
from urllib.request import Request, urlopen

from support.engines.ports import free_ports
from support.wheel import ROOT

CONSTRAINTS = ROOT / "constraints.txt"
_INSTALL_S, _RUN_S, _STOP_S = 600, 120, 30
#: The interval between requests for a level, and the timeout of one.
_POLL_S, _REQUEST_S = 0.1, 10
Levels = dict[str, Any]


class NotInstalled(Exception):
    """The distribution cannot be installed. The message is pip's."""


@dataclass(frozen=True, slots=True)
class Demo:
    """A running demo: its port and the key that it printed."""

    port: int
    key: str

    def live_levels(self, until_s: float) -> Levels:
        """Return the first live answer for ES. until_s: monotonic time after which `TimeoutError` is raised."""
        return next(levels for levels in self._levels(until_s) if levels["live"])

    def _levels(self, until_s: float) -> Iterator[Levels]:
        url = f"http://127.0.0.1:{self.port}/api/levels?symbol=ES"
        request = Request(url, headers={"x-api-key": self.key})
        while monotonic() < until_s:
            with urlopen(request, timeout=_REQUEST_S) as response:
                yield json.load(response)
            sleep(_POLL_S)
        raise TimeoutError(f"The demo has no live level yet: {url}")


class Environment:
    """A virtual environment with one distribution installed from a file. Raises `NotInstalled`.

    extras: such as `[serve]`. Libraries have the versions of `constraints.txt`.
    """

    def __init__(self, folder: Path, distribution: Path, extras: str = "") -> None:
        self.folder = folder
        venv.create(folder, symlinks=True)
        self._pip(
            "install", "--constraint", str(CONSTRAINTS), f"openoutcry{extras} @ {distribution.as_uri()}"
        )

    def _pip(self, *arguments: str) -> str:
        """Run the pip of this process for the environment, which has none itself."""
        call = [sys.executable, "-m", "pip", "--python", self.command("python"), *arguments]
        done = subprocess.run(
            call, env=bare(), capture_output=True, text=True, timeout=_INSTALL_S, check=False
        )
        if done.returncode:
            raise NotInstalled(done.stderr.strip() or f"pip ended with {done.returncode}")
        return done.stdout

    def command(self, name: str) -> str:
        """Return the path of a program of the environment."""
        return str(self.folder / "bin" / name)

    @property
    def packages(self) -> set[str]:
        """The installed distributions, by their normalised names."""
        found = json.loads(self._pip("list", "--format", "json"))
        return {re.sub(r"[-_.]+", "-", each["name"]).lower() for each in found}

    @property
    def size(self) -> int:
        """Bytes of the installed packages, bytecode included."""
        (packages,) = (self.folder / "lib").glob("python*/site-packages")
        return sum(path.stat().st_size for path in packages.rglob("*") if path.is_file())

    def run(self, *command: str, data: Path | None = None) -> subprocess.CompletedProcess[str]:
        """Run a program of the environment outside the checkout."""
        return subprocess.run(
            [self.command(command[0]), *command[1:]], cwd=self.folder, env=_with_data(data),
            capture_output=True, text=True, timeout=_RUN_S, check=False,
        )  # fmt: skip

    @contextmanager
    def demo(self, data: Path) -> Generator[Demo]:
        """Run `outcry serve --demo` with a data folder until the end of the context. It has printed its key."""
        (port,) = free_ports(1)
        with subprocess.Popen(
            [self.command("outcry"), "serve", "--demo", "--port", str(port)], cwd=self.folder,
            env=_with_data(data), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        ) as service:  # fmt: skip
            try:
                assert service.stdout is not None
                keys = (re.match(r"key: (\S+)", line) for line in service.stdout)
                found = next(filter(None, keys), None)
                if found is None:
                    raise RuntimeError(f"outcry serve --demo ended with {service.wait(_STOP_S)}")
                yield Demo(port, found[1])
            finally:
                service.terminate()
                service.communicate(timeout=_STOP_S)


def bare() -> dict[str, str]:
    """Return the environment variables without those that change what Python imports, or Outcry's settings."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "OUTCRY_"))}


def _with_data(data: Path | None) -> dict[str, str]:
    return bare() | ({"OUTCRY_DATA": str(data)} if data else {})
