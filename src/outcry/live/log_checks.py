"""What every log looks at before it takes an entry: whose it is, and whether it follows."""

import re

_KEY = re.compile(r"[0-9]+(?:/[0-9A-Za-z_][0-9A-Za-z_.-]*){2}", re.ASCII)


def is_key(text: str) -> bool:
    """Whether this is the name of a stream, `StreamKey.text`."""
    return _KEY.fullmatch(text) is not None


def check_key(text: str) -> None:
    """Raise `ValueError` for what names no stream."""
    if not is_key(text):
        raise ValueError(f"{text!r} names no stream: it has the form 0/demo/ESZ2026")


def check_repeat(key: str, last: int, first: int, count: int) -> None:
    """Accept what is there already; raise `ValueError` for anything else that is not next."""
    if count < 1:
        raise ValueError(f"{key}: {count} entries cannot be appended")
    if first > last:
        raise ValueError(f"{key}: entries from {first} cannot follow {last}: there is a hole")
    if first + count > last:
        raise ValueError(
            f"{key}: entries {first} to {first + count} are there up to {last}, and cannot be split"
        )
