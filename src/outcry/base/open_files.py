"""The limit of open files of this process."""

from contextlib import suppress

try:
    import resource
except ModuleNotFoundError:  # Windows has no such limit
    resource = None

_MOST = 65_536
#: macOS may refuse more than this, even if the hard limit is infinite.
_MOST_MACOS = 10_240


def most_open_files() -> int | None:
    """Return how many files and sockets this process may have open; None if there is no limit."""
    if resource is None:
        return None
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return None if soft == resource.RLIM_INFINITY else soft


def allow_open_files() -> None:
    """Raise the limit as far as the system allows.

    Each stream reader and each webhook delivery needs a file descriptor, so the usual 1,024 (macOS: 256) are too few.
    """
    if resource is None:
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MOST if hard == resource.RLIM_INFINITY else min(hard, _MOST)
    for most in (wanted, _MOST_MACOS):
        if soft == resource.RLIM_INFINITY or soft >= most:
            return
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
            return
