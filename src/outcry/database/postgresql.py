"""Connections to PostgreSQL through psycopg, with a timeout for every wait.

No call waits longer than its timeout for a server that is down, stopped or unreachable. A process that stops in the
middle of a transaction blocks other processes no longer than that, because the server ends the transaction.
"""

from typing import Any

import psycopg
from psycopg.pq import TransactionStatus
from sqlalchemy import URL, Connection, Engine, create_engine, event

#: Timeout of a statement. The server's own is a little shorter, which keeps the connection usable.
PATIENCE_S = 3.0
#: Timeouts of checking a pooled connection and of opening one; libpq's minimum is 2 s.
_PING_S, _CONNECT_S = 1.0, 2
#: How long the server keeps an idle transaction open.
_IDLE_S = 5.0
_POOL, _MORE = 10, 20
_POOL_WAIT_S = 2.0


class PatientConnection(psycopg.Connection[Any]):
    """A PostgreSQL connection that closes itself when the server does not respond in time.

    Neither TCP nor the server's own timeouts detect a stopped server process, because its machine still acknowledges
    packets.
    """

    patience_s = PATIENCE_S

    def wait(self, gen: Any, interval: float = 0.1, timeout: float | None = None) -> Any:
        """Override how psycopg waits for the server: wait at most this connection's timeout."""
        try:
            return super().wait(gen, interval, self.patience_s if timeout is None else timeout)
        except psycopg.OperationalError:
            if self.pgconn.transaction_status == TransactionStatus.ACTIVE:  # the statement timed out
                self.pgconn.finish()
            raise


def open_postgresql(url: URL) -> Engine:
    """Create an engine that connects lazily and checks pooled connections before use."""
    engine = create_engine(
        url.set(drivername="postgresql+psycopg"),
        isolation_level="READ COMMITTED",  # overrides the server's default: a statement sees earlier commits
        pool_size=_POOL,
        max_overflow=_MORE,
        pool_timeout=_POOL_WAIT_S,
        pool_pre_ping=True,
        pool_use_lifo=True,
    )

    def on_connect(_dialect: object, _record: object, given: list[Any], named: dict[str, Any]) -> Any:
        return PatientConnection.connect(*given, **_limits(named))

    def on_checkout(driver: PatientConnection, _record: object, _proxy: object) -> None:
        driver.patience_s = PATIENCE_S

    def on_checkin(driver: PatientConnection | None, _record: object) -> None:
        if driver is not None:
            driver.patience_s = _PING_S

    event.listen(engine, "do_connect", on_connect)
    event.listen(engine, "checkout", on_checkout)
    event.listen(engine, "checkin", on_checkin)
    return engine


def let_take(connection: Connection, patience_s: float) -> None:
    """Set how long each statement of this transaction may take, in seconds."""
    driver: Any = connection.connection.driver_connection
    driver.patience_s = patience_s
    connection.exec_driver_sql(f"SET LOCAL statement_timeout = {_server_ms(patience_s)}")


def _limits(named: dict[str, Any]) -> dict[str, Any]:
    """Return the connection parameters of a URL with our timeouts added; timeouts in the URL take precedence."""
    options = (
        f"-c statement_timeout={_server_ms(PATIENCE_S)} "
        f"-c idle_in_transaction_session_timeout={_IDLE_S * 1000:.0f}"
    )
    limits = {
        "connect_timeout": _CONNECT_S,
        "keepalives_idle": 5,
        "keepalives_interval": 2,
        "keepalives_count": 3,
    }
    limits |= {"tcp_user_timeout": int(PATIENCE_S * 1000), "application_name": "outcry"}
    # without it texts arrive in the encoding of the database, and as bytes if the database has none
    limits |= {"client_encoding": "utf8"}
    return limits | named | {"options": f"{options} {named.get('options', '')}".strip()}


def _server_ms(patience_s: float) -> int:
    return int(patience_s * 1000 * 5 / 6)
