"""Stands where alerts will be delivered from: judges addresses by what they say of themselves, and delivers nothing.

Rule kept: it never claims to have sent anything. An address is refused here for what can be told without asking
anybody: its form, its scheme, a number or a name that is not public. What a name resolves to is for the deliverer.
"""

from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address
from urllib.parse import SplitResult, urlsplit

from outcry.ports.delivery import SubscriptionRow, Target, TestResult

OK = "ok"
NOT_RUNNING = "delivery_not_running"
LONGEST = 2000
_HTTPS_PORT = 443
#: Names that never lead to a public host (RFC 6761, 6762, 7686, 8375, 9476, and what networks use inside).
_INSIDE = (
    "localhost", "localdomain", "local", "internal", "intranet", "lan", "home", "corp", "private", "alt",
    "test", "invalid", "example", "onion", "arpa", "svc",
)  # fmt: skip
#: Public by the registry, and yet inside: a cloud's own service, and the relays that led into IPv6.
_NOT_FOR_US = (IPv4Network("168.63.129.16/32"), IPv4Network("192.88.99.0/24"))
#: The only part of IPv6 that is given out, without what is set aside in it: there tunnels and examples live.
_GIVEN_OUT = IPv6Network("2000::/3")
_SET_ASIDE = tuple(
    map(
        IPv6Network,
        ("2001::/23", "2001:db8::/32", "2002::/16", "3ffe::/16", "3fff::/20", "2620:4f:8000::/48"),
    )
)


class PendingDeliverer:
    """Implements `ports.delivery.Deliverer` for a service that does not deliver yet."""

    running = False

    def judge(self, target: Target, address: str) -> str:
        """See `Deliverer`."""
        return OK if target is Target.EMAIL else judge_url(address)

    def test(self, row: SubscriptionRow, address: str, secret: str | None) -> TestResult:
        """See `Deliverer`: nothing is sent."""
        return TestResult(NOT_RUNNING, None, 0, (), "", "")


def judge_url(address: str) -> str:
    """`ok`, or the `endpoint_*` code of what is wrong with an address."""
    plain = address.isprintable() and not any(sign.isspace() or sign in '\\<>"' for sign in address)
    if not plain or len(address) > LONGEST:
        return "endpoint_invalid"
    try:
        url = urlsplit(address)
        port = url.port
    except ValueError:
        return "endpoint_invalid"
    if url.scheme != "https" or not url.netloc:
        return "endpoint_not_https"
    if "@" in url.netloc:
        return "endpoint_userinfo"
    if not url.hostname or "#" in address or "%" in url.netloc or url.netloc.endswith(":"):
        return "endpoint_invalid"
    if port not in (None, _HTTPS_PORT):
        return "endpoint_port"
    return _judge_host(url)


def _judge_host(url: SplitResult) -> str:
    host = (url.hostname or "").removesuffix(".")
    if "[" in url.netloc:
        return _judge_number(host)
    try:
        name = host.encode("idna").decode().lower()
    except UnicodeError:
        return "endpoint_invalid"
    labels = name.split(".")
    if labels[-1].isdigit() or labels[-1].startswith("0x"):
        return _judge_number(name)
    if len(labels) < 2 or any(name == inside or name.endswith(f".{inside}") for inside in _INSIDE):
        return "endpoint_private"
    plain = all(
        0 < len(label) <= 63 and label.strip("-") == label and label.replace("-", "").isalnum()
        for label in labels
    )
    return OK if plain and len(name) <= 253 else "endpoint_invalid"


def _judge_number(text: str) -> str:
    """An address written as a number has to be written in full, and public."""
    try:
        number = ip_address(text)
    except ValueError:
        return "endpoint_invalid"
    public = number.is_global and not number.is_multicast and not number.is_reserved
    if isinstance(number, IPv6Address):
        public = public and number in _GIVEN_OUT and not any(number in aside for aside in _SET_ASIDE)
    else:
        public = public and not any(number in inside for inside in _NOT_FOR_US)
    return OK if public else "endpoint_private"
