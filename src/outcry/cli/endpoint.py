"""`outcry endpoint check`: would an address be taken for a webhook?

Rule kept: what decides is what decides when a webhook is saved and at every delivery; standard output carries the code
alone. Nothing is connected to, and no database opened.
"""

import asyncio
import sys
from collections.abc import Iterable
from ipaddress import ip_address
from typing import Annotated

from cyclopts import App, Parameter

from outcry.deliver.address import read_rule
from outcry.deliver.lookup import OK, UNVERIFIED, Lookup
from outcry.deliver.names import NameService, ask_system
from outcry.settings import read_settings

endpoint = App(name="endpoint", help="Webhook addresses: would this one be taken?")

_REASONS = {
    "endpoint_invalid": "this is no address of the web: https://, a host, and a path or query; without spaces, "
    "backslashes, a # part or percent signs in the host, 2,048 characters at most",
    "endpoint_not_https": "only https:// is taken",
    "endpoint_userinfo": "a name or password before an @ is not taken; put a secret into the path instead",
    "endpoint_port": "only port 443 is taken, and what the setting private_hosts names",
    "endpoint_private": "this host is not public, or leads to an address that is not; the setting private_hosts can "
    "admit it, for development",
    "endpoint_self": "this is where this service itself is reached",
}
_UNFOUND = "the name cannot be found now: the address is taken as not verified, and judged at every delivery"


@endpoint.command
def check(
    url: str,
    *,
    answer: Annotated[list[str] | None, Parameter(negative=())] = None,
    data: str | None = None,
) -> int:
    """Say whether URL would be taken for a webhook.

    Prints `ok`, or the code of what is wrong; the reason goes to standard error. Exit status 0 if it is taken, 1
    if not, 2 where an answer is no IP address. A name that cannot be found now is taken, with a note. The settings
    `public_url`, `private_hosts` and `egress_denied` count.

        outcry endpoint check https://hooks.example.com/outcry

        outcry endpoint check https://hooks.example.com/outcry --answer 10.0.0.5

    Parameters
    ----------
    url
        The address, as it would be entered.
    answer
        An IP address that the name is taken to have, instead of asking the name service; may be given more than once.
    data
        The data folder, whose outcry.toml counts; otherwise OUTCRY_DATA.
    """
    for given in answer or ():
        try:
            ip_address(given)
        except ValueError:
            print(f"outcry: {given!r} is not an IP address", file=sys.stderr)
            return 2
    settings = read_settings(data=data)
    rule = read_rule(settings.public_url, settings.private_hosts, settings.egress_denied)

    def scripted(name: str) -> Iterable[str]:
        return answer or ask_system(name)

    code = asyncio.run(Lookup(rule, NameService(scripted)).judge(url))
    if code == UNVERIFIED:
        print(f"outcry: {_UNFOUND}", file=sys.stderr)
        code = OK
    print(code)
    if code != OK:
        print(f"outcry: {_REASONS[code]}", file=sys.stderr)
    return 0 if code == OK else 1
