"""Addresses alerts are sent to: what one has to look like for its target, and what of it may be shown.

Rule kept: what is shown of an address does not let anybody use it.
"""

import re

import idna

from outcry.delivery.model import Target
from outcry.people.email_address import is_email

_SHOWN = 4
#: What stands before the last two labels of a host is shown as it is up to here: longer, it may be a secret.
_LONGEST_FRONT = 40
SLACK = re.compile(r"https://hooks\.slack(?:-gov)?\.com/services/T\w+/B\w+/\w{8,}", re.ASCII)
DISCORD = re.compile(
    r"https://(?:(?:ptb|canary)\.)?discord(?:app)?\.com/api/(?:v\d+/)?webhooks/\d{17,20}/[\w-]{60,100}",
    re.ASCII,
)
#: One mailbox and nothing around it (RFC 5321, 4.1.2): what else a header takes for an address, such as a name before
#: it or a second one, would be another spelling of somebody who is asked only so often. Without quotes, and without
#: the `%` and `!` by which old mail servers pass a mail on to somewhere else; at a name on the Internet.
_ATOM, _LABEL = r"[\w#$&*+/=?^{|}~-]+", r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_MAILBOX = re.compile(
    rf"(?=.{{3,254}}\Z)(?=[^@]{{1,64}}@){_ATOM}(?:\.{_ATOM})*@(?:{_LABEL}\.)+(?!\d+\Z){_LABEL}",
    re.ASCII | re.IGNORECASE,
)


def shown_of(target: Target, address: str) -> str:
    """What of an address may be shown: of a URL its host and last four characters, for the path may be a secret. The
    host stands there as it is looked up, so that none can be taken for another."""
    if target is Target.EMAIL:
        return address
    host, slash, path = address.partition("://")[2].partition("/")
    host, question, query = host.partition("?")
    rest = path if slash else query
    return _shown_host(host) + (
        f"/…{rest[-_SHOWN:]}" if len(rest) > 2 * _SHOWN else f"{slash or question}…" if rest else ""
    )


def mailbox_of(address: str) -> str:
    """Whose mailbox an e-mail address is, whatever tag its owner wrote behind a `+`, and in whatever case."""
    local, _, domain = address.lower().rpartition("@")
    return f"{local.partition('+')[0]}@{domain}"


def _shown_host(authority: str) -> str:
    """A host, with its port if it has one: in lower-case A-labels, and without what could be a secret before it."""
    host, colon, port = authority.partition(":") if not authority.startswith("[") else (authority, "", "")
    try:
        name = host.lower() if host.isascii() else idna.encode(host, uts46=True, std3_rules=True).decode()
    except UnicodeError:  # such as no name service is asked for
        name = host.encode("ascii", "backslashreplace").decode()
    front, dot, end = name.removesuffix(".").rpartition(".")
    front, *between = front.rsplit(".", 1)
    if len(front) > _LONGEST_FRONT and between:
        front = f"…{front[-_SHOWN:]}"
    return ".".join((front, *between)) + dot + end + colon + port


def form_fault(target: Target, address: str) -> str:
    """What is wrong with an address for its target, before anybody is asked; empty where nothing is."""
    if not address:
        return "address_missing"
    if target is Target.EMAIL:
        return "" if _MAILBOX.fullmatch(address) and is_email(address) else "email_form"
    if target is Target.SLACK and SLACK.fullmatch(address) is None:
        return "slack_trigger" if "slack.com/triggers/" in address else "not_slack"
    if target is Target.DISCORD and DISCORD.fullmatch(address) is None:
        return "not_discord"
    if target is Target.HTTPS and (SLACK.fullmatch(address) or DISCORD.fullmatch(address)):
        return "address_of_a_chat"  # which could not read what a program is sent
    return ""
