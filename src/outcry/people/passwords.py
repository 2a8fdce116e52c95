"""Password hashing with argon2id, 64 MiB per hash.

Every check costs one hash, whether or not the account exists. At most two hashes run at once, which bounds the memory,
and at most six requests wait, so that sign-in attempts cannot occupy all threads that serve pages.
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
#: Together with the two running these are half of the threads that serve pages. Further requests are refused.
MOST_WAITING = 6
#: Maximum wait for a free slot.
LONGEST_WAIT_S = 5.0
_REASONS = {
    Fault.SHORT: Reason.PASSWORD_SHORT,
    Fault.LONG: Reason.PASSWORD_LONG,
    Fault.COMMON: Reason.PASSWORD_COMMON,
}


class Passwords:
    """Hashes and checks passwords. One per process, because it limits concurrency."""

    def __init__(self) -> None:
        self._hasher = PasswordHasher(time_cost=PASSES, memory_cost=MEMORY_KIB, parallelism=LANES)
        self._places = BoundedSemaphore(AT_ONCE + MOST_WAITING)
        self._turns = BoundedSemaphore(AT_ONCE)
        self._nobodys = _hash_of_nothing()

    def accept(self, password: str, email: str) -> None:
        """Check a new password of a user against the rules. Raises `Refused`."""
        fault = judge(password, email)
        if fault is not None:
            raise Refused(_REASONS[fault], "password")

    def hashed(self, password: str) -> str:
        """Return the hash of a password."""
        with self._turn():
            return self._hasher.hash(_bytes(password))

    def match(self, stored_hash: str | None, password: str) -> bool:
        """Return whether a password matches its hash.

        For None (no account or no password) the check takes equally long and never matches.
        """
        with self._turn():
            try:
                return (
                    self._hasher.verify(stored_hash or self._nobodys, _bytes(password))
                    and stored_hash is not None
                )
            except (VerificationError, InvalidHashError):
                return False

    def needs_rehash(self, stored_hash: str) -> bool:
        """Return whether a hash uses outdated parameters, so the password should be hashed again."""
        return self._hasher.check_needs_rehash(stored_hash)

    @contextmanager
    def _turn(self) -> Generator[None]:
        with _acquired(self._places, 0), _acquired(self._turns, LONGEST_WAIT_S):
            yield


@contextmanager
def _acquired(semaphore: BoundedSemaphore, wait_s: float) -> Generator[None]:
    if not semaphore.acquire(timeout=wait_s):
        raise Refused(Reason.TOO_OFTEN, retry_after_s=int(LONGEST_WAIT_S))
    try:
        yield
    finally:
        semaphore.release()


def _bytes(password: str) -> bytes:
    return normalised(password).encode("utf-8", "surrogatepass")


def _hash_of_nothing() -> str:
    """Return a hash with the current parameters that matches no password."""
    salt, digest = (base64.b64encode(secrets.token_bytes(size)).decode().rstrip("=") for size in (16, 32))
    return f"$argon2id$v=19$m={MEMORY_KIB},t={PASSES},p={LANES}${salt}${digest}"
