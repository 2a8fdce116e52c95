"""Checks that all logs share: of the name of a stream, and of the position of an entry."""

import re

_KEY = re.compile(r"[0-9]+(?:/[0-9A-Za-z_][0-9A-Za-z_.-]*){2}", re.ASCII)


def is_key(text: str) -> bool:
    """Return whether a text has the form of a stream's name, `StreamKey.text`."""
    return _KEY.fullmatch(text) is not None


def check_key(text: str) -> None:
    """Raise `ValueError` unless a text has the form of a stream's name."""
    if not is_key(text):
        raise ValueError(f"{text!r} names no stream: it has the form 0/demo/ESZ2026")


def check_repeat(key: str, last: int, first: int, count: int) -> None:
    """Check that entries which are appended a second time are all in the log already.

    Such entries need not be appended again. last: the position after the newest entry of the log. Raises `ValueError`
    for a gap before the entries, or if only some of them are in the log.
    """
    if count < 1:
        raise ValueError(f"{key}: {count} entries cannot be appended")
    if first > last:
        raise ValueError(f"{key}: entries from {first} cannot follow {last}: there is a hole")
    if first + count > last:
        raise ValueError(
            f"{key}: entries {first} to {first + count} are there up to {last}, and cannot be split"
        )
