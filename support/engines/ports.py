"""Free ports of this machine."""

import random
import socket
from contextlib import ExitStack, suppress

#: Below the ports that systems assign to outgoing connections (from 32768 on Linux, 49152 elsewhere). Such a connection
#: could take a port between our choice and its server's start.
_PORTS = range(20_000, 32_768)


def free_ports(count: int) -> list[int]:
    """Return ports of this machine without a listener, chosen at random, so that parallel tests choose others."""
    with ExitStack() as sockets:
        found: list[int] = []
        for port in random.SystemRandom().sample(_PORTS, len(_PORTS)):
            one = sockets.enter_context(socket.socket())
            with suppress(OSError):  # in use: try the next
                one.bind(("127.0.0.1", port))
                found.append(port)
            if len(found) == count:
                return found
        raise AssertionError("all ports are in use")


def listens(port: int) -> bool:
    """Return whether a process listens on a port."""
    try:
        socket.create_connection(("127.0.0.1", port), 0.5).close()
    except OSError:
        return False
    return True
