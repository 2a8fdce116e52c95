"""URLs and email addresses of targets: their required form, and the part that may be displayed.

The displayed part is too short to send anything to the target.
"""

import re

import idna

from outcry.delivery.model import Target
from outcry.people.email_address import is_email

_SHOWN = 4
#: Longer host labels may be secrets and are shortened in display.
_LONGEST_FRONT = 40
SLACK = re.compile(r"https://hooks\.slack(?:-gov)?\.com/services/T\w+/B\w+/\w{8,}", re.ASCII)
DISCORD = re.compile(
    r"https://(?:(?:ptb|canary)\.)?discord(?:app)?\.com/api/(?:v\d+/)?webhooks/\d{17,20}/[\w-]{60,100}",
    re.ASCII,
)
#: One mailbox (RFC 5321, 4.1.2). Names before it or a second email address would bypass the limit of consent requests.
#: Quotes, and the `%` and `!` that old mail servers forward by, are refused. The domain must be a name on the
#: Internet.
_ATOM, _LABEL = r"[\w#$&*+/=?^{|}~-]+", r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_MAILBOX = re.compile(
    rf"(?=.{{3,254}}\Z)(?=[^@]{{1,64}}@){_ATOM}(?:\.{_ATOM})*@(?:{_LABEL}\.)+(?!\d+\Z){_LABEL}",
    re.ASCII | re.IGNORECASE,
)


def shown_of(target: Target, address: str) -> str:
    """Return the displayable part of a URL or email address.

    Of a URL that is its host in A-labels and its last four characters, because the path may be a secret.
    """
    if target is Target.EMAIL:
        return address
    host, slash, path = address.partition("://")[2].partition("/")
    host, question, query = host.partition("?")
    rest = path if slash else query
    return _shown_host(host) + (
        f"/…{rest[-_SHOWN:]}" if len(rest) > 2 * _SHOWN else f"{slash or question}…" if rest else ""
    )


def mailbox_of(address: str) -> str:
    """Return the mailbox of an email address, in lower case and without a `+` tag."""
    local, _, domain = address.lower().rpartition("@")
    return f"{local.partition('+')[0]}@{domain}"


def _shown_host(authority: str) -> str:
    """Return a host with its port for display, in lower-case A-labels, without a possible secret in its first label."""
    host, colon, port = authority.partition(":") if not authority.startswith("[") else (authority, "", "")
    try:
        name = host.lower() if host.isascii() else idna.encode(host, uts46=True, std3_rules=True).decode()
    except UnicodeError:  # not a valid host name
        name = host.encode("ascii", "backslashreplace").decode()
    front, dot, end = name.removesuffix(".").rpartition(".")
    front, *between = front.rsplit(".", 1)
    if len(front) > _LONGEST_FRONT and between:
        front = f"…{front[-_SHOWN:]}"
    return ".".join((front, *between)) + dot + end + colon + port


def form_fault(target: Target, address: str) -> str:
    """Return the code of what is malformed in a URL or email address; empty if it is valid. Uses no network."""
    if not address:
        return "address_missing"
    if target is Target.EMAIL:
        return "" if _MAILBOX.fullmatch(address) and is_email(address) else "email_form"
    if target is Target.SLACK and SLACK.fullmatch(address) is None:
        return "slack_trigger" if "slack.com/triggers/" in address else "not_slack"
    if target is Target.DISCORD and DISCORD.fullmatch(address) is None:
        return "not_discord"
    if target is Target.HTTPS and (SLACK.fullmatch(address) or DISCORD.fullmatch(address)):
        return "address_of_a_chat"  # a chat cannot parse the body for programs
    return ""
