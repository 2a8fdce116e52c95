"""Rules for webhook URLs: which text is accepted, and which IP addresses are public.

The rules use no network, so a URL always has the same verdict. An accepted URL has one canonical form, which is the
one requested. Text that parsers could interpret differently (RFC 3986 and WHATWG) is refused.
"""

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_network
from urllib.parse import quote, urlsplit

import idna

INVALID, NOT_HTTPS, USERINFO = "endpoint_invalid", "endpoint_not_https", "endpoint_userinfo"
PORT, PRIVATE, SELF = "endpoint_port", "endpoint_private", "endpoint_self"

HTTPS_PORT = 443
_LAST_PORT = 65_535
LONGEST = 2048
IpAddress = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

#: Names that are never public hosts (RFC 6761, 6762, 7686, 8375, 9476, and names common in private networks).
_INSIDE = frozenset((
    "localhost", "localdomain", "local", "internal", "intranet", "lan", "home", "corp", "private", "alt",
    "test", "invalid", "example", "onion", "arpa", "svc",
))  # fmt: skip
#: Not public, although `is_global` of some Python versions returns True: special-purpose addresses (RFC 6890 and
#: later), relays and anycast services, multicast, and the public address of a cloud's own service.
_SPECIAL_4 = tuple(map(IPv4Network, (
    "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24",
    "192.0.2.0/24", "192.31.196.0/24", "192.52.193.0/24", "192.88.99.0/24", "192.168.0.0/16", "192.175.48.0/24",
    "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4", "168.63.129.16/32",
)))  # fmt: skip
#: The allocated part of IPv6, and its reserved networks: tunnels, translators, examples.
_GIVEN_OUT = IPv6Network("2000::/3")
_SPECIAL_6 = tuple(map(IPv6Network, (
    "2001::/23", "2001:db8::/32", "2002::/16", "2620:4f:8000::/48", "3ffe::/16", "3fff::/20",
)))  # fmt: skip
#: IPv4 addresses of `ipv4only.arpa` (RFC 7050). An IPv6 address that contains one shows a translator's prefix.
_WELL_KNOWN = (IPv4Address("192.0.0.170").packed, IPv4Address("192.0.0.171").packed)

_AUTHORITY = re.compile(r"(\[[^\[\]]*\]|[^:\[\]]+)(?::([0-9]+))?")
_LABEL = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
#: Characters that stay unquoted in a path or query; `%` too, because it is already encoded.
_PLAIN = "/?:@!$&'()*+,;=-._~%[]"


@dataclass(frozen=True, slots=True)
class Destination:
    """The host that an accepted URL leads to.

    - `host`: a host name in A-labels, or an IP address without brackets; no final dot.
    - `ip`: the IP address, None for a name.
    - `url`: the canonical URL.
    - `admitted`: allowed by the operator, so it need not be public.
    """

    host: str
    port: int
    url: str
    ip: IpAddress | None = None
    admitted: bool = False


@dataclass(frozen=True, slots=True)
class UrlRule:
    """The rule that decides which webhook URLs and IP addresses are allowed.

    `own_hosts`: hosts of this service. `admitted`: hosts with ports that need not be public. `denied_networks`: never
    connected to, even if public or admitted.
    """

    own_hosts: Collection[str] = frozenset()
    admitted: Collection[tuple[str, int]] = frozenset()
    denied_networks: tuple[Network, ...] = ()

    def check(self, text: str) -> Destination | str:
        """Return the destination of a URL, or the `endpoint_*` code of its fault."""
        if not text or len(text) > LONGEST or not text.isprintable() or " " in text or "\\" in text:
            return INVALID
        scheme, mark, rest = text.partition("://")
        if not mark or scheme.lower() != "https":
            return NOT_HTTPS
        authority = re.split(r"[/?#]", rest, maxsplit=1)[0]
        if "@" in authority:
            return USERINFO
        read = read_host(authority)
        if read is None or "#" in rest:
            return INVALID
        host, ip, port = read
        admitted = (host, port) in self.admitted
        wrong = self._refuse_admitted(ip) if admitted else self._refuse(host, ip, port)
        if wrong:
            return wrong
        shown = f"[{host}]" if isinstance(ip, IPv6Address) else host
        after = quote(rest[len(authority) :], safe=_PLAIN)
        url = f"https://{shown}{'' if port == HTTPS_PORT else f':{port}'}{'' if after[:1] == '/' else '/'}{after}"
        return Destination(host, port, url, ip, admitted)

    def is_public(self, ip: IpAddress) -> bool:
        """Return whether an IP address is public, so that connecting to it needs no permission of the operator."""
        if self.is_denied(ip):
            return False
        if isinstance(ip, IPv4Address):
            return ip.is_global and not any(ip in network for network in _SPECIAL_4)
        return (
            ip in _GIVEN_OUT
            and ip.scope_id is None
            and not any(ip in network for network in _SPECIAL_6)
            and not _is_isatap(ip)
        )

    def is_denied(self, ip: IpAddress) -> bool:
        """Return whether the operator denies an IP address, also in its IPv4-mapped form."""
        plain = ip.ipv4_mapped or ip if isinstance(ip, IPv6Address) else ip
        return any(plain in network or ip in network for network in self.denied_networks)

    def may_connect(self, destination: Destination, ip: IpAddress) -> bool:
        """Return whether a request to `destination` may connect to an IP address."""
        return not self.is_denied(ip) if destination.admitted else self.is_public(ip)

    def _refuse(self, host: str, ip: IpAddress | None, port: int) -> str:
        if port != HTTPS_PORT:
            return PORT
        if host in self.own_hosts:
            return SELF
        if ip is not None:
            return "" if self.is_public(ip) else PRIVATE
        labels = host.split(".")
        return PRIVATE if len(labels) < 2 or labels[-1] in _INSIDE else ""

    def _refuse_admitted(self, ip: IpAddress | None) -> str:
        return PRIVATE if ip is not None and self.is_denied(ip) else ""


def read_rule(public_url: str = "", private_hosts: str = "", egress_denied: str = "") -> UrlRule:
    """Build the rule from the settings of the same names. Raises `ValueError` that names the invalid entry."""
    own = read_host(urlsplit(public_url).netloc) if public_url else None
    admitted: set[tuple[str, int]] = set()
    for entry in _entries(private_hosts):
        read = read_host(entry)
        if read is None or not read[2]:
            raise ValueError(f"private_hosts: {entry!r} is invalid. Use host or host:port")
        admitted.add((read[0], read[2]))
    denied: list[Network] = []
    for entry in _entries(egress_denied):
        try:
            denied.append(ip_network(entry))
        except ValueError as problem:
            raise ValueError(f"egress_denied: {problem}") from None
    return UrlRule(frozenset((own[0],) if own else ()), frozenset(admitted), tuple(denied))


def read_host(authority: str) -> tuple[str, IpAddress | None, int] | None:
    """Return canonical host, IP address (None for a name) and port of `host` or `host:port`; None if invalid."""
    parts = _AUTHORITY.fullmatch(authority)
    if parts is None:
        return None
    spelt, port_text = parts[1], parts[2] or str(HTTPS_PORT)
    port = int(port_text)
    if str(port) != port_text or port > _LAST_PORT or "%" in spelt:
        return None
    if spelt.startswith("["):
        ip = _ip_of(IPv6Address, spelt[1:-1])
        return None if ip is None else (str(ip), ip, port)
    name = _name(spelt)
    if name is None:
        return None
    last = name.rpartition(".")[2]
    if last.isdigit() or last.startswith("0x"):  # other parsers would read it as a number
        ip = _ip_of(IPv4Address, name)
        return None if ip is None else (name, ip, port)
    return name, None, port


def translation_networks(answers: Iterable[IpAddress]) -> tuple[IPv6Network, ...]:
    """Return the networks of this network's NAT64 translator, from the addresses of `ipv4only.arpa` (RFC 7050).

    The position of the IPv4 address follows RFC 6052, 2.2.
    """
    found: set[IPv6Network] = set()
    for answer in answers:
        octets = answer.packed
        for bits in (32, 40, 48, 56, 64, 96):
            start = bits // 8
            embedded = octets[12:] if bits == 96 else (octets[start:8] + octets[9:])[:4]
            if len(octets) == 16 and embedded in _WELL_KNOWN:
                found.add(IPv6Network((octets[:start].ljust(16, b"\0"), bits)))
    return tuple(sorted(found))


def _name(text: str) -> str | None:
    """Return a host name in lower-case A-labels (UTS 46, non-transitional); None if it is invalid."""
    try:
        folded = text.lower() if text.isascii() else idna.uts46_remap(text, std3_rules=True)
        labels = [_label(label) for label in folded.removesuffix(".").split(".")]
    except UnicodeError:
        return None
    name = ".".join(labels)
    return name if len(name) <= 253 and all(map(_LABEL.fullmatch, labels)) else None


def _label(label: str) -> str:
    if len(label) > 63:  # its A-label would not be shorter, and checking a long label is slow
        raise UnicodeError
    if label.isascii() and not label.startswith("xn--"):
        return label
    return idna.alabel(idna.ulabel(label)).decode("ascii")


def _ip_of(kind: type[IpAddress], text: str) -> IpAddress | None:
    try:
        return kind(text)
    except ValueError:
        return None


def _is_isatap(ip: IPv6Address) -> bool:
    """Return whether an IPv6 address embeds an IPv4 address in the form of ISATAP (RFC 5214, 6.1).

    The last 32 bits are then the IPv4 address, after the ISATAP prefix with the universal bit set or not.
    """
    return (int(ip) >> 32) & 0xFDFF_FFFF == 0x0000_5EFE


def _entries(text: str) -> list[str]:
    return [entry.strip() for entry in text.split(",") if entry.strip()]
