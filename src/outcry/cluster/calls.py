"""Names and errors of calls between processes: a short request to the process that registered a name, and its answer.

A call is answered within its timeout or fails. Calls are not stored, so the caller may repeat a failed one.
"""

from collections.abc import Awaitable, Callable, Mapping

#: Answers a call. The caller receives a `CallRefused` unchanged, and any other error as one with the code `fault`.
Answerer = Callable[[bytes], Awaitable[bytes]]


class BusDown(Exception):
    """The message bus does not respond; the caller may retry."""

    retry = True


class NobodyServes(BusDown):
    """No process has registered the name at present; another may do so soon."""


class CallRefused(Exception):
    """The called process refused the request. `code` is a stable error code; `details` depend on it."""

    def __init__(self, code: str, details: Mapping[str, object] | None = None) -> None:
        super().__init__(code)
        self.code, self.details = code, dict(details or {})
