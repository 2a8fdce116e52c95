"""Format of an API key: `outcry_`, 43 base-62 characters of secret and 6 of checksum.

The last six characters are the CRC-32 of all characters before them. A mistyped or truncated key is therefore
recognised without a lookup. The checksum is no secret and proves nothing but the format.
"""

import re
from zlib import crc32

MARK = "outcry_"
SECRET_BITS = 256
_ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_SECRET_LENGTH = 43  # 62**43 is the first power of 62 above 2**256
_CHECK_LENGTH = 6  # 62**6 is the first above 2**32
_SHOWN = 8
LONGEST_LABEL = 60
KEY_LENGTH = len(MARK) + _SECRET_LENGTH + _CHECK_LENGTH
KEY_PATTERN = re.compile(rf"{MARK}[0-9A-Za-z]{{{_SECRET_LENGTH + _CHECK_LENGTH}}}", re.ASCII)


def _base62(number: int, length: int) -> str:
    """Encode a number in base 62, most significant digit first, padded with zeros."""
    digits: list[str] = []
    for _ in range(length):
        number, digit = divmod(number, 62)
        digits.append(_ALPHABET[digit])
    return "".join(reversed(digits))


def compose(secret: int) -> str:
    """Build an API key from a random number. Raises `ValueError` unless the number has at most 256 bits."""
    if not 0 <= secret < 1 << SECRET_BITS:
        raise ValueError("a key's secret is a number of at most 256 bits")
    body = MARK + _base62(secret, _SECRET_LENGTH)
    return body + _base62(crc32(body.encode("ascii")), _CHECK_LENGTH)


def is_well_formed(text: str) -> bool:
    """Return whether a text has the format of a key, checksum included."""
    if KEY_PATTERN.fullmatch(text) is None:
        return False
    body = text[:-_CHECK_LENGTH]
    return text[-_CHECK_LENGTH:] == _base62(crc32(body.encode("ascii")), _CHECK_LENGTH)


def prefix(key: str) -> str:
    """Return the part of a key that may be shown and logged: `outcry_` and 8 of the 43 secret characters."""
    return key[: len(MARK) + _SHOWN]


def is_beginning(text: str) -> bool:
    """Return whether a text is a key or could be the beginning of one."""
    secret = text.removeprefix(MARK)
    if secret == text:  # the mark itself is incomplete
        return bool(text) and MARK.startswith(text)
    return len(text) <= KEY_LENGTH and (not secret or (secret.isascii() and secret.isalnum()))


def is_label(text: str) -> bool:
    """Return whether a text is a valid label of a key: at most 60 printable characters, or empty."""
    return len(text) <= LONGEST_LABEL and text.isprintable()
