"""`outcry endpoint check`: check whether a URL is accepted for a webhook.

The command applies the rules that the service applies when a user saves a webhook, and before every delivery. It prints
only the code on standard output, opens no connection and no database.
"""

import asyncio
import sys
from ipaddress import ip_address
from typing import Annotated

from cyclopts import App, Parameter

from outcry.app.settings import read_settings
from outcry.delivery.resolver import OK, UNVERIFIED, GuardedResolver, StaticResolver
from outcry.delivery.url_rule import read_rule

endpoint = App(name="endpoint", help="Check whether webhook URLs are accepted.")

_REASONS = {
    "endpoint_invalid": "The URL is invalid. Use https://, a host and a path, at most 2,048 characters in all, without "
    "spaces, backslashes, a # fragment or percent signs in the host.",
    "endpoint_not_https": "The URL must start with https://.",
    "endpoint_userinfo": "The URL contains a user name or password before an @. Put the secret into the path instead.",
    "endpoint_port": "The port must be 443. For development, the setting private_hosts can allow another port.",
    "endpoint_private": "The host is not public, or resolves to a private IP address. For development, the setting "
    "private_hosts can allow it.",
    "endpoint_self": "The URL points to this service. Use the URL of the receiver.",
}
_UNRESOLVED = (
    "The host name cannot be resolved at the moment. The URL is accepted as unverified and checked again at every "
    "delivery."
)


@endpoint.command
def check(
    url: str,
    *,
    answer: Annotated[list[str] | None, Parameter(negative=())] = None,
    data: str | None = None,
) -> int:
    """Check whether URL is accepted for a webhook.

    Prints `ok` or an error code on standard output, and the reason on standard error. Exit status: 0 accepted, 1
    rejected, 2 invalid --answer. A host name that cannot be resolved is accepted with a note. The settings
    `public_url`, `private_hosts` and `egress_denied` apply.

        outcry endpoint check https://hooks.example.com/outcry

        outcry endpoint check https://hooks.example.com/outcry --answer 10.0.0.5

    Parameters
    ----------
    url
        URL of the webhook.
    answer
        IP address to use instead of a DNS lookup. Can be given more than once.
    data
        Data folder, for its outcry.toml. Default: OUTCRY_DATA.
    """
    for given in answer or ():
        try:
            ip_address(given)
        except ValueError:
            print(
                f"outcry: Invalid --answer {given!r}: use an IP address such as 203.0.113.7.", file=sys.stderr
            )
            return 2
    settings = read_settings(data=data)
    rule = read_rule(settings.public_url, settings.private_hosts, settings.egress_denied)
    static = StaticResolver(answer) if answer else None
    code = asyncio.run(_check(GuardedResolver(rule, public=static, private=static), url))
    if code == UNVERIFIED:
        print(f"outcry: {_UNRESOLVED}", file=sys.stderr)
        code = OK
    print(code)
    if code != OK:
        print(f"outcry: {_REASONS[code]}", file=sys.stderr)
    return 0 if code == OK else 1


async def _check(resolver: GuardedResolver, url: str) -> str:
    try:
        return await resolver.check(url)
    finally:
        await resolver.close()
