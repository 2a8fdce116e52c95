"""Run `outcry` on Linux by the rules of Windows: `python windows_rules.py ARGUMENTS`, or `-c CODE` for other code.

POSIX-only modules cannot be imported. For Outcry, POSIX-only functions, signals and flags do not exist. Event loops
accept no signal handlers. Folders cannot be opened. A file that this process has open cannot be deleted, renamed or
replaced. What Windows would do silently wrong (a file opened without its flag for binary files) or refuse (a name
with `:`) is appended to the file in `WINDOWS_RULES_LOG`.

What this does not show: drive letters and backslashes, access lists, and programs that Windows itself starts.
"""

import asyncio.unix_events
import builtins
import importlib.util
import os
import select
import selectors
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

MODULES = {
    "fcntl", "grp", "pty", "pwd", "readline", "resource", "syslog", "termios", "tty", "uvloop",
}  # fmt: skip
FUNCTIONS = """
    chown chroot confstr ctermid fchdir fchmod fchown fdatasync fork forkpty fpathconf fstatvfs getegid geteuid getgid
    getgroups getloadavg getpgid getpgrp getpriority getresuid getsid getuid initgroups killpg lchown lockf mkfifo mknod
    nice openpty pathconf pread preadv posix_fadvise posix_fallocate posix_spawn pwrite pwritev readv register_at_fork
    sched_getaffinity sched_setaffinity sched_yield sendfile setegid seteuid setgid setgroups setpgid setpriority setsid
    setuid statvfs sync sysconf tcgetpgrp ttyname uname wait wait3 wait4 writev
    O_CLOEXEC O_DIRECT O_DIRECTORY O_DSYNC O_NDELAY O_NOATIME O_NOCTTY O_NOFOLLOW O_NONBLOCK O_PATH O_SYNC O_TMPFILE
    EX_OK WNOHANG
"""
SIGNALS = """
    SIGALRM SIGCHLD SIGCONT SIGHUP SIGIO SIGKILL SIGPIPE SIGPROF SIGPWR SIGQUIT SIGSTOP SIGSYS SIGTRAP SIGTSTP SIGTTIN
    SIGTTOU SIGURG SIGUSR1 SIGUSR2 SIGVTALRM SIGWINCH SIGXCPU SIGXFSZ alarm getitimer pause pthread_kill pthread_sigmask
    setitimer sigwait sigtimedwait
"""
#: The value of Windows. On Linux on x86-64 it is the flag for large files, which is always on.
O_BINARY = 0x8000
DEVICES = {"con", "prn", "aux", "nul", *(f"{port}{n}" for port in ("com", "lpt") for n in range(10))}
FORBIDDEN = set('<>:"\\|?*')

_log = list[int]()  # the open file


def breach(text: str) -> None:
    """Record what Windows would do wrong or refuse."""
    frame = sys._getframe(2)
    os.write(_log[0], f"{text} ({frame.f_code.co_filename}:{frame.f_lineno})\n".encode())


def without(module: ModuleType, names: str, **more: object) -> ModuleType:
    """Return a copy of a module without some names."""
    copy = ModuleType(module.__name__, module.__doc__)
    lost = set(names.split())
    vars(copy).update({name: value for name, value in vars(module).items() if name not in lost}, **more)
    return copy


def change_imports() -> None:
    """Refuse POSIX-only modules, and give Outcry's own modules an `os` and a `signal` without POSIX-only names.

    Libraries keep theirs, because they choose their code by `sys.platform`.
    """
    real_import, real_find = builtins.__import__, importlib.util.find_spec
    changed = {
        "os": without(os, FUNCTIONS, O_BINARY=O_BINARY),
        "select": without(select, "epoll poll"),
        "signal": without(signal, SIGNALS),
        "time": without(time, "pthread_getcpuclockid tzset"),
    }

    def limited(name: str, scope: Mapping[str, Any] | None = None, *more: Any, **named: Any) -> Any:
        importer = (scope or {}).get("__name__", "")
        if name.partition(".")[0] in MODULES and not importer.startswith("filelock."):
            raise ModuleNotFoundError(f"No module named {name!r} (Windows)", name=name)
        if name in changed and importer.startswith("outcry."):
            return changed[name]
        return real_import(name, scope, *more, **named)

    def find(name: str, package: str | None = None) -> ModuleSpec | None:
        return None if name.partition(".")[0] in MODULES else real_find(name, package)

    builtins.__import__ = limited
    importlib.util.find_spec = find  # type: ignore[assignment]


def change_loops_and_files() -> None:
    """Let event loops and temporary files behave as on Windows."""
    selectors.DefaultSelector = selectors.SelectSelector  # type: ignore[misc, assignment]
    tempfile.TemporaryFile = tempfile.NamedTemporaryFile  # type: ignore[misc, assignment]
    shutil._use_fd_functions = False  # type: ignore[attr-defined]

    def refused(*_: Any, **__: Any) -> None:
        raise NotImplementedError

    for name in ("add_signal_handler", "add_reader", "add_writer"):
        setattr(asyncio.unix_events.SelectorEventLoop, name, refused)


def is_open(path: Any) -> bool:
    """Return whether this process has a file open."""
    wanted = Path(os.fsdecode(path)).resolve()
    for handle in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            if handle.readlink() == wanted:
                return True
    return False


def check_name(path: str) -> None:
    for name in Path(path).absolute().parts[1:]:
        bad = FORBIDDEN & set(name) or name[-1:] in {".", " "} or name.partition(".")[0].lower() in DEVICES
        if bad:
            breach(f"{path}: Windows does not allow the name {name!r}")


def check_opening(path: Any, mode: str | None, flags: int) -> None:
    if isinstance(path, int):
        return
    path = os.fsdecode(path)
    if path.startswith(("/dev/", "/proc/", "/sys/")):
        return
    if flags & os.O_CREAT:
        check_name(path)
    if mode is None:
        if not sys._getframe(2).f_globals.get("__name__", "").startswith("outcry."):
            return  # a library chooses its way by `sys.platform`
        if Path(path).is_dir():
            raise PermissionError(13, "Windows opens no folder", path)
        if not flags & O_BINARY:
            breach(f"{path}: opened without O_BINARY")


def audit(event: str, given: tuple[Any, ...]) -> None:
    if event == "open":
        check_opening(*given)
    elif event == "os.mkdir":
        check_name(os.fsdecode(given[0]))
    elif event == "os.remove" and is_open(given[0]):
        raise PermissionError(13, "Windows deletes no open file", given[0])
    elif event == "os.rename":
        check_name(os.fsdecode(given[1]))
        if is_open(given[0]) or is_open(given[1]):
            raise PermissionError(13, "Windows renames and replaces no open file", given[0])


def main() -> None:
    sys.dont_write_bytecode = True
    _log.append(os.open(os.environ["WINDOWS_RULES_LOG"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600))
    change_imports()
    change_loops_and_files()
    sys.addaudithook(audit)
    from outcry.base import portable_files

    portable_files.WINDOWS = True
    arguments = sys.argv[1:]
    if arguments[:1] == ["-c"]:
        exec(compile(arguments[1], "<code>", "exec"), {"__name__": "outcry.code"})
        return
    from outcry.__main__ import main as run

    sys.argv[0] = "outcry"
    run()


if __name__ == "__main__":
    main()
