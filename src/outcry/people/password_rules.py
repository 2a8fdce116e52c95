"""Rules for passwords: a minimum length, and no common passwords.

No mix of character kinds is required (NIST SP 800-63B-4, 3.1.1.2). Passwords are normalised (NFKC) before they are
checked or hashed, so that different keyboards produce the same password.
"""

import re
import unicodedata
from enum import StrEnum

SHORTEST = 12
LONGEST = 256
#: Shorter names occur in too many words to be forbidden.
_SHORTEST_NAME = 4

#: Common passwords of twelve characters or more, in lower case without blanks.
_TRIED_FIRST = """
    123456789012 1234567890123 12345678901234 0123456789012 012345678910 1234567891011 123456123456 123123123123
    987654321098 098765432109 112233445566 123321123321 qwertyuiop123 qwertyuiop12 qwerty123456 qwertyqwerty
    qwertyuiopas qwertyuiopasdf asdfghjkl123 asdfghjklzxc zxcvbnm12345 1qaz2wsx3edc 1q2w3e4r5t6y q1w2e3r4t5y6
    zaq12wsxcde3 abcdefghijkl abcdefghijklm abcdefg12345 abcd12345678 abc123456789 a123456789012 password1234
    password12345 password123456 password2024 password2025 password2026 passwordpassword passw0rd1234 p4ssw0rd1234
    mypassword123 newpassword1 changeme1234 changemenow1 changeme123456 letmein12345 letmeinplease iloveyou1234
    iloveyouforever welcome12345 welcome123456 administrator admin1234567 admin123456789 adminadminadmin
    superuser123 rootrootroot testtesttest test12345678 correcthorsebatterystaple correcthorse football1234
    baseball1234 sunshine1234 princess1234 dragon123456 monkey123456 trustno1trustno1 thisismypassword
    passwort1234 passwort12345 hallohallo123 ichliebedich geheim123456 willkommen123 sommer2024sommer
"""
_COMMON = frozenset(_TRIED_FIRST.split())
_REPEATED = re.compile(r"(.{1,4})\1{2,}.{0,3}", re.DOTALL)
_SIGNS = str.maketrans({"@": "a", "$": "s", "!": "i"})


class Fault(StrEnum):
    """Reason why a password is rejected."""

    SHORT = "short"
    LONG = "long"
    COMMON = "common"


def normalised(password: str) -> str:
    """Return a password in Unicode normal form NFKC."""
    return unicodedata.normalize("NFKC", password)


def judge(password: str, email: str) -> Fault | None:
    """Check a new password of a user; return why it is rejected, None if it is accepted."""
    text = normalised(password)
    if len(text) < SHORTEST:
        return Fault.SHORT
    if len(text) > LONGEST:
        return Fault.LONG
    plain = "".join(text.casefold().split())
    name = email.partition("@")[0].casefold()
    guessed = (
        "outcry" in plain
        or (len(name) >= _SHORTEST_NAME and name in plain)
        or not _COMMON.isdisjoint({plain, plain.translate(_SIGNS), plain.rstrip("!.?#$")})
        or _REPEATED.fullmatch(plain) is not None
    )
    return Fault.COMMON if guessed else None
