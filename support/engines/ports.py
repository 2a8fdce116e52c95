"""Free ports of this machine, and waiting until somebody listens on one."""

import socket
import time
from collections.abc import Callable
from contextlib import ExitStack


def free_ports(count: int) -> list[int]:
    """So many ports that nobody listens on; held together, so that none comes twice."""
    with ExitStack() as held:
        found: list[int] = []
        for _ in range(count):
            one = held.enter_context(socket.socket())
            one.bind(("127.0.0.1", 0))
            found.append(one.getsockname()[1])
        return found


def until(so: Callable[[], bool], what: str, patience_s: float = 60.0) -> None:
    """Wait until something is so; raise `AssertionError` naming it where it does not become so."""
    end_s = time.monotonic() + patience_s
    while not so():
        assert time.monotonic() < end_s, f"in {patience_s:.0f} s it did not come about that {what}"
        time.sleep(0.01)


def listens(port: int) -> bool:
    """Whether anybody takes connections on a port."""
    try:
        socket.create_connection(("127.0.0.1", port), 0.5).close()
    except OSError:
        return False
    return True
