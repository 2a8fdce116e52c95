"""Names and errors of calls between processes: short requests to whichever process has registered a name.

A call returns the process's answer within its timeout, or fails. The message bus stores no calls, so the caller may
repeat a failed one.
"""

from collections.abc import Awaitable, Callable, Mapping

#: Answers a call. The caller receives a `CallRefused` unchanged, and any other error as one with the code `fault`.
Answerer = Callable[[bytes], Awaitable[bytes]]


class BusDown(Exception):
    """The message bus does not respond; the caller may retry."""

    retry = True


class NobodyServes(BusDown):
    """No process answers calls to this name at present. The caller may retry, because one may start to soon."""


class CallRefused(Exception):
    """The called process refused the request. `code` is a stable error code; `details` depend on it."""

    def __init__(self, code: str, details: Mapping[str, object] | None = None) -> None:
        super().__init__(code)
        self.code, self.details = code, dict(details or {})
