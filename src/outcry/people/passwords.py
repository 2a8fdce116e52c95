"""Passwords and the work of checking them: argon2id, 64 MiB each.

Rules kept: whoever asks, and whether or not there is such an account, one check costs one hash; no more than two are
worked at once, so that strangers cannot fill the memory by knocking, and no more than six wait, so that they cannot
keep everybody else's pages waiting either.
"""

import base64
import secrets
from collections.abc import Generator
from contextlib import contextmanager
from threading import BoundedSemaphore

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from outcry.people.password_rules import Fault, judge, normalised
from outcry.people.refusals import Reason, Refused

MEMORY_KIB = 64 * 1024
PASSES = 3
LANES = 1
AT_ONCE = 2
#: With the two that are worked these hold half of the threads that answer pages. Whoever comes on top is sent away.
MOST_WAITING = 6
#: How long one waits for a turn.
LONGEST_WAIT_S = 5.0
_REASONS = {
    Fault.SHORT: Reason.PASSWORD_SHORT,
    Fault.LONG: Reason.PASSWORD_LONG,
    Fault.COMMON: Reason.PASSWORD_COMMON,
}


class Passwords:
    """Hashes and checks. One for the process: it holds the turns."""

    def __init__(self) -> None:
        self._hasher = PasswordHasher(time_cost=PASSES, memory_cost=MEMORY_KIB, parallelism=LANES)
        self._places = BoundedSemaphore(AT_ONCE + MOST_WAITING)
        self._turns = BoundedSemaphore(AT_ONCE)
        self._nobodys = _hash_of_nothing()

    def accept(self, password: str, email: str) -> None:
        """Pass a password that may be chosen for this address. Raises `Refused`."""
        fault = judge(password, email)
        if fault is not None:
            raise Refused(_REASONS[fault], "password")

    def hashed(self, password: str) -> str:
        """What is kept of it."""
        with self._turn():
            return self._hasher.hash(_bytes(password))

    def match(self, kept: str | None, password: str) -> bool:
        """Whether this is the password. None (no such account, or none with a password) costs the same, and is not."""
        with self._turn():
            try:
                return self._hasher.verify(kept or self._nobodys, _bytes(password)) and kept is not None
            except (VerificationError, InvalidHashError):
                return False

    def worn(self, kept: str) -> bool:
        """Whether it was hashed otherwise than passwords are today."""
        return self._hasher.check_needs_rehash(kept)

    @contextmanager
    def _turn(self) -> Generator[None]:
        with _held(self._places, 0), _held(self._turns, LONGEST_WAIT_S):
            yield


@contextmanager
def _held(semaphore: BoundedSemaphore, wait_s: float) -> Generator[None]:
    if not semaphore.acquire(timeout=wait_s):
        raise Refused(Reason.TOO_OFTEN, retry_after_s=int(LONGEST_WAIT_S))
    try:
        yield
    finally:
        semaphore.release()


def _bytes(password: str) -> bytes:
    return normalised(password).encode("utf-8", "surrogatepass")


def _hash_of_nothing() -> str:
    """A hash no password has, of today's cost: chance in the place of salt and digest."""
    salt, digest = (base64.b64encode(secrets.token_bytes(size)).decode().rstrip("=") for size in (16, 32))
    return f"$argon2id$v=19$m={MEMORY_KIB},t={PASSES},p={LANES}${salt}${digest}"
