"""Use the installed command as a user does: import files, then ask a running service over HTTP."""

import json
import os
import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

OUTCRY = Path(sys.executable).with_name("outcry")


def outcry(data: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a command on a data folder."""
    return subprocess.run(
        [OUTCRY, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=240,
        env=_environment(data),
        check=False,
    )


def _environment(data: Path) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "HOME": str(data), "OUTCRY_DATA": str(data)}


@dataclass(frozen=True)
class Service:
    """A running service, and a key for it."""

    url: str
    key: str

    def get(self, path: str, **parameters: str | int) -> dict[str, Any]:
        """Return an answer."""
        query = "&".join(f"{name.rstrip('_')}={value}" for name, value in parameters.items())
        request = urllib.request.Request(f"{self.url}{path}?{query}", headers={"x-api-key": self.key})
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.loads(answer.read())


@contextmanager
def serving(data: Path) -> Iterator[Service]:
    """Serve a data folder."""
    key = outcry(data, "keys", "create", "--email", "me@example.com", "--tier", "admin").stdout.strip()
    command = [OUTCRY, "serve", "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=_environment(data)) as process:
        assert process.stderr is not None
        try:
            greeting = (re.search(r"Outcry is running at (http://\S+)", line) for line in process.stderr)
            yield Service(next(found[1] for found in greeting if found), key)
        finally:
            process.send_signal(signal.SIGTERM)
            process.stderr.read()
            process.wait(timeout=60)


def append(table: Path, *rows: str) -> None:
    """Append rows to a table of the user's own."""
    with table.open("a", encoding="utf-8") as file:
        file.writelines(f"{row}\n" for row in rows)


def reasons(made: subprocess.CompletedProcess[str]) -> Mapping[str, int]:
    """Return the counts of rows left out, by reason, that an import of one file printed."""
    (text,) = re.findall(r"; rows left out: (.*)", made.stderr)
    found = (part.partition(" ") for part in text.split(", "))
    return {reason: int(count.replace(",", "")) for count, _, reason in found}
