"""Untrusted text, made safe to display.

Invisible characters and those that change the text direction are shown by their code.
"""

from unicodedata import category

_PLAIN = frozenset("\n\t")
#: Control, format, private, unassigned and lone surrogate characters, and Unicode line separators.
_UNSEEN = frozenset({"Cc", "Cf", "Co", "Cn", "Cs", "Zl", "Zp"})
#: Start of Unicode's pictures of control characters.
_PICTURES = 0x2400


def as_seen(text: str) -> str:
    """Return the text with each invisible character replaced by a visible code.

    For example escape becomes `␛`, and direction marks become `‹U+202E›`.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(_seen(sign) for sign in text.replace("\r\n", "\n"))


def _seen(sign: str) -> str:
    if sign in _PLAIN or category(sign) not in _UNSEEN:
        return sign
    number = ord(sign)
    return chr(_PICTURES + number) if number < 32 else f"‹U+{number:04X}›"
