"""What came from elsewhere, as text a person can trust their eyes with.

Rule kept: a character that cannot be seen, or that would turn the text around it, is shown by its number.
"""

from unicodedata import category

_PLAIN = frozenset("\n\t")
#: Control, format, private, unassigned and lone surrogate characters, and separators of lines that are none of ours.
_UNSEEN = frozenset({"Cc", "Cf", "Co", "Cn", "Cs", "Zl", "Zp"})
#: Where Unicode has a picture for each of the first control characters.
_PICTURES = 0x2400


def as_seen(text: str) -> str:
    """The text with everything in it to be seen: escape as `␛`, a mark that turns text around as `‹U+202E›`."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(_seen(sign) for sign in text.replace("\r\n", "\n"))


def _seen(sign: str) -> str:
    if sign in _PLAIN or category(sign) not in _UNSEEN:
        return sign
    number = ord(sign)
    return chr(_PICTURES + number) if number < 32 else f"‹U+{number:04X}›"
