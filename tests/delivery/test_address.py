"""Which webhook URLs are valid, and which IP addresses are public."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from ipaddress import IPv6Address, ip_address
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outcry.cli.endpoint import check
from outcry.delivery.resolver import GuardedResolver, StaticResolver
from outcry.delivery.url_rule import Destination, UrlRule, read_host, read_rule, translation_networks

#: URL of the service in these tests.
OWN = "https://api.levels.dev"
RULE = read_rule(OWN)
OUTCRY = Path(sys.executable).parent / "outcry"


def code(address: str, rule: UrlRule = RULE) -> str:
    place = rule.check(address)
    return place if isinstance(place, str) else "ok"


def accepted(address: str, rule: UrlRule = RULE) -> Destination:
    place = rule.check(address)
    assert isinstance(place, Destination), (address, place)
    return place


@pytest.fixture(scope="session")
def cases(shared: Path) -> list[dict[str, Any]]:
    read = json.loads((shared / "vectors" / "endpoint_address_cases.json").read_text())
    return [case for case in read["cases"] if case["kind"] == "url"]


def test_all_url_vectors(cases: list[dict[str, Any]]) -> None:
    """Cases with answers of a name service are also checked with these answers, one at a time."""
    wrong: list[tuple[str, str, str]] = []
    for case in cases:
        place = RULE.check(case["url"])
        verdict = "ok" if isinstance(place, Destination) else place
        if isinstance(place, Destination) and not all(
            RULE.may_connect(place, ip_address(answer)) for answer in case.get("dns", ())
        ):
            verdict = "endpoint_private"
        meant = "ok" if case["expect"] == "allow" else case.get("code", verdict)
        if verdict != meant or (case["expect"] == "refuse" and verdict == "ok"):
            wrong.append((case["id"], verdict, meant))
    assert wrong == []
    assert len(cases) > 100


@dataclass
class Command:
    """Runs `outcry endpoint check` in this process, with its own settings."""

    patch: pytest.MonkeyPatch
    printed: pytest.CaptureFixture[str]

    def __call__(self, url: str, *answers: str, **settings: str) -> tuple[int, str, str]:
        """Return the exit status, standard output, and standard error."""
        with self.patch.context() as patch:
            for name, value in settings.items():
                patch.setenv(f"OUTCRY_{name}", value)
            status = check(url, answer=list(answers) or None)
        printed, errors = self.printed.readouterr()
        return status, printed, errors


@pytest.fixture
def command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Command]:
    monkeypatch.setenv("OUTCRY_DATA", str(tmp_path))
    yield Command(monkeypatch, capsys)
    assert list(tmp_path.iterdir()) == []


def test_the_command_agrees_with_the_url_vectors(cases: list[dict[str, Any]], command: Command) -> None:
    """All cases except those that would query a name service."""
    for case in cases:
        if case["expect"] == "allow" and "dns" not in case and not case["cls"].endswith("literal"):
            continue
        status, printed, errors = command(case["url"], *case.get("dns", ()), PUBLIC_URL=OWN)
        meant = "ok" if case["expect"] == "allow" else case.get("code", printed.strip())
        assert (printed, status) == (f"{meant}\n", int(meant != "ok")), case["id"]
        assert bool(errors) == (meant != "ok"), case["id"]


def test_the_command_and_its_answers(command: Command) -> None:
    url = "https://hooks.mysite.dev/in"
    assert command(url, "93.184.216.34", "2606:4700:4700::1111") == (0, "ok\n", "")
    assert command(url, "93.184.216.34", "10.0.0.1")[:2] == (1, "endpoint_private\n")
    status, printed, errors = command(url, "93.184.216.34", "nowhere")
    assert (status, printed) == (2, "")
    assert "Invalid --answer 'nowhere'" in errors
    assert command(url, "")[:2] == (2, "")
    inside = "https://hooks.mysite.dev:8443/in"
    admitted = {"PRIVATE_HOSTS": "hooks.mysite.dev:8443"}
    assert command(inside, "10.0.0.1", **admitted) == (0, "ok\n", "")
    assert command(url, "10.0.0.1", **admitted)[:2] == (1, "endpoint_private\n")
    denied = {"EGRESS_DENIED": "10.0.0.0/8, 93.184.216.34/32"}
    assert command(inside, "10.0.0.1", **admitted, **denied)[:2] == (1, "endpoint_private\n")
    assert command(url, "93.184.216.34", **denied)[:2] == (1, "endpoint_private\n")


def test_an_unresolvable_name_is_accepted_with_a_note(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    nowhere = StaticResolver(())
    scripted = partial(GuardedResolver, public=nowhere, private=nowhere)
    monkeypatch.setattr("outcry.cli.endpoint.GuardedResolver", lambda rule, **_: scripted(rule))
    status, printed, errors = command("https://hooks.mysite.dev/in")
    assert (status, printed) == (0, "ok\n")
    assert "accepted as unverified" in errors


def test_the_installed_command(tmp_path: Path) -> None:
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "OUTCRY_DATA": str(tmp_path)}
    words = [
        OUTCRY,
        "endpoint",
        "check",
        "https://hooks.mysite.dev/in",
        "--answer",
        "1.1.1.1",
        "--answer",
        "::1",
    ]
    made = subprocess.run(words, check=False, capture_output=True, text=True, env=environment, timeout=120)
    assert (made.returncode, made.stdout) == (1, "endpoint_private\n")


@pytest.mark.parametrize(
    ("address", "normalised"),
    [
        ("https://hooks.mysite.dev/in", "https://hooks.mysite.dev/in"),
        ("HTTPS://Hooks.MySite.DEV/In", "https://hooks.mysite.dev/In"),
        ("https://hooks.mysite.dev:443/in", "https://hooks.mysite.dev/in"),
        ("https://hooks.mysite.dev./in", "https://hooks.mysite.dev/in"),
        ("https://hooks.mysite.dev.:443", "https://hooks.mysite.dev/"),
        ("https://mysite.dev?a=1", "https://mysite.dev/?a=1"),
        (
            "https://mysite.dev?next=https://ann@10.0.0.1:25/",
            "https://mysite.dev/?next=https://ann@10.0.0.1:25/",
        ),
        ("https://mysite.dev/@ann/..//x", "https://mysite.dev/@ann/..//x"),
        ("https://mysite.dev/%2e%0d%0a", "https://mysite.dev/%2e%0d%0a"),
        (
            'https://mysite.dev/h\u00f6r/{"x"}|^`<>',
            "https://mysite.dev/h%C3%B6r/%7B%22x%22%7D%7C%5E%60%3C%3E",
        ),
        ("https://b\u00fccher.de/hook", "https://xn--bcher-kva.de/hook"),
        ("https://B\u00dcCHER.de/hook", "https://xn--bcher-kva.de/hook"),
        ("https://xn--bcher-kva.de/hook", "https://xn--bcher-kva.de/hook"),
        ("https://XN--BCHER-KVA.de/hook", "https://xn--bcher-kva.de/hook"),
        ("https://fa\u00df.de/", "https://xn--fa-hia.de/"),
        ("https://\uff4d\uff59site.dev/", "https://mysite.dev/"),
        ("https://mysite\u3002dev/", "https://mysite.dev/"),
        ("https://hooks.mysite.dev\uff0e/", "https://hooks.mysite.dev/"),
        ("https://r3---sn.mysite.dev/", "https://r3---sn.mysite.dev/"),
        ("https://8.8.8.8/", "https://8.8.8.8/"),
        ("https://8.8.8.8.:443/", "https://8.8.8.8/"),
        ("https://\uff18.8.8.8/", "https://8.8.8.8/"),
        ("https://[2606:4700:4700:0::1111]/", "https://[2606:4700:4700::1111]/"),
        ("https://[2606:4700:4700::ABCD]:443/", "https://[2606:4700:4700::abcd]/"),
        ("https://api.levels.dev.mysite.dev/", "https://api.levels.dev.mysite.dev/"),
        ("https://local.mysite.dev/", "https://local.mysite.dev/"),
        ("https://1.mysite.dev/", "https://1.mysite.dev/"),
        ("https://" + "a" * 63 + ".dev/", "https://" + "a" * 63 + ".dev/"),
        ("https://mysite.dev/" + "a" * (2048 - 19), "https://mysite.dev/" + "a" * (2048 - 19)),
    ],
)
def test_accepted_urls_are_normalised(address: str, normalised: str) -> None:
    place = accepted(address)
    assert place.url == normalised
    assert accepted(normalised) == place


@pytest.mark.parametrize(
    "address",
    [
        "http://mysite.dev/", "HTTP://127.0.0.1:25/", "ftp://mysite.dev/", "ws://mysite.dev/", "gopher://mysite.dev:70/_x",
        "file:///etc/passwd", "javascript:alert(1)", "data:text/plain,hi", "unix:///var/run/docker.sock", "mysite.dev",
        "//mysite.dev/", "/in", "https:/mysite.dev/", "https:mysite.dev/", "https", "https:", "httpss://mysite.dev/",
        "https+unix://x/", "http\u017f://mysite.dev/", "\uff48ttps://mysite.dev/", "view-source:https://mysite.dev/",
        "mysite.dev/?u=https://mysite.dev/", "jar:https://mysite.dev!/", "1https://mysite.dev/",
    ],
)  # fmt: skip
def test_other_schemes_than_https_are_refused(address: str) -> None:
    assert code(address) == "endpoint_not_https"


SPACES = [
    *map(chr, range(0x21)), "\x7f", "\x85", "\xa0", "\xad", "\u1680", "\u180e", "\u2000", "\u2007", "\u200b",
    "\u200d", "\u200e", "\u2028", "\u2029", "\u202e", "\u202f", "\u205f", "\u2060", "\u2066", "\u3000", "\ufeff",
    "\ufff9", "\ud800", "\ue000", "\uffff", "\U000e0001",
]  # fmt: skip


@pytest.mark.parametrize("sign", SPACES, ids=[f"U+{ord(sign):04X}" for sign in SPACES])
def test_invisible_characters_are_refused_anywhere(sign: str) -> None:
    address = "https://mysite.dev:443/a?x=y"
    for place in range(len(address) + 1):
        assert code(address[:place] + sign + address[place:]) == "endpoint_invalid"


@pytest.mark.parametrize(
    "address",
    [
        "", " ", "https://", "https:///in", "https://?x", "https://:443/", "https://./", "https://../",
        "https://mysite.dev/" + "a" * (2049 - 19), "https://" + "a." * 127 + "dev/", "https://" + "a" * 64 + ".dev/",
        # two interpretations
        "https://mysite.dev\\@127.0.0.1/", "https://mysite.dev/\\..\\", "https:\\\\mysite.dev/", "\\\\mysite.dev\\in",
        "https://mysite.dev#@127.0.0.1/", "https://mysite.dev/in#", "https://mysite.dev/?x#y", "https://#/",
        "https://127%2e0%2e0%2e1/", "https://%6c%6f%63alhost/", "https://mysite.dev%2f.10.0.0.1/",
        "https://mysite.dev%00/", "https://mysite%E3%80%82dev/", "https://mysite.dev:%34%34%33/",
        # invalid ports
        "https://mysite.dev:/", "https://mysite.dev:4e3/", "https://mysite.dev:443:80/", "https://mysite.dev:+443/",
        "https://mysite.dev:-1/", "https://mysite.dev:0443/", "https://mysite.dev:00/", "https://mysite.dev:0x1bb/",
        "https://mysite.dev:00443/", "https://mysite.dev: 443/", "https://mysite.dev:4_43/", "https://mysite.dev:443./",
        "https://mysite.dev:\uff14\uff14\uff13/", "https://mysite.dev:\u0664\u0664\u0663/", "https://mysite.dev:443a/",
        # numbers in other notations
        "https://0x7f000001/", "https://0X7F.0.0.1/", "https://0x7f.0x0.0x0.0x1/", "https://0177.0.0.1/",
        "https://127.1/", "https://127.0.1/", "https://017700000001/", "https://2130706433/", "https://4294967296/",
        "https://1.2.3.4.5/", "https://256.1.1.1/", "https://08.8.8.8/", "https://8.8.8.08/", "https://8.8.8/",
        "https://0/", "https://1/", "https://0x/", "https://mysite.0x0/", "https://mysite.1/", "https://10.0.0.5../",
        "https://1e2.1.1.1.1/", "https://\u0661\u0662\u0667.0.0.1x.1/", "https://127.0.0.0x1/", "https://1.2.3.-4/",
        # invalid IPv6
        "https://::1/", "https://[]/", "https://[::1/", "https://::1]/", "https://[::1]]/", "https://[[::1]]/",
        "https://[127.0.0.1]/", "https://[mysite.dev]/", "https://[fe80::1%25eth0]/", "https://[::1%25lo]/",
        "https://[fe80::1%eth0]/", "https://[1::2::3]/", "https://[12345::1]/", "https://[v1.fe80]/",
        "https://[::1]443/", "https://[::1]:/", "https://x[::1]/", "https://[::1]x/", "https://[::1].dev/",
        "https://[::ffff:127.1]/", "https://[::ffff:0177.0.0.1]/", "https://2606:4700:4700::1111/", "https://[:]/",
        # invalid names
        "https://-a.mysite.dev/", "https://a-.mysite.dev/", "https://a..mysite.dev/", "https://.mysite.dev/",
        "https://mysite.dev../", "https://mysite,dev/", "https://mysite.dev;127.0.0.1/", "https://my_site.dev/",
        "https://mysite.dev&x/", "https://mysite.dev=x/", "https://*.mysite.dev/", "https://my!site.dev/",
        "https://(mysite.dev)/", "https://mysite.dev'/", "https://<mysite.dev>/", "https://{host}.mysite.dev/",
        "https://my|site.dev/", "https://my^site.dev/", "https://mysite.dev,10.0.0.1/", "https://$(id).mysite.dev/",
        "https://xn--.dev/", "https://xn--a.dev/", "https://xn--localhost-.dev/", "https://xn--\u00fc.dev/",
        "https://xn--bcher-kv\u00e4.de/", "https://\u00fc" + "\u00fc" * 62 + ".dev/", "https://\u0301mysite.dev/",
        "https://\uff0f.mysite.dev/", "https://mysite.dev\u2044x/", "https://mysite\u2024dev\uff1f/", "https://\U0001f4a9.dev/",
        "https://\u05d0a1.mysite.dev/", "https://mysite.dev\uff20127.0.0.1/", "https://mysite.dev\uff1a25/",
    ],
)  # fmt: skip
def test_ambiguous_and_malformed_urls_are_refused(address: str) -> None:
    assert code(address) == "endpoint_invalid"


@pytest.mark.parametrize(
    "address",
    [
        "https://mysite.dev@127.0.0.1/", "https://ann:secret@mysite.dev/", "https://@mysite.dev/", "https://:@mysite.dev/",
        "https://mysite.dev:443@169.254.169.254/", "https://a@b@mysite.dev/", "https://ann%40x@mysite.dev/",
        "https://[::1]@mysite.dev/", "https://ann@[::1]/", "https://mysite.dev@", "https://ann@mysite.dev:25/",
    ],
)  # fmt: skip
def test_user_names_and_passwords_in_urls_are_refused(address: str) -> None:
    assert code(address) == "endpoint_userinfo"


@pytest.mark.parametrize("port", [65536, 65979, 99999, 4294967739])
def test_a_port_number_above_the_maximum_is_refused(port: int) -> None:
    assert code(f"https://mysite.dev:{port}/") == "endpoint_invalid"


@pytest.mark.parametrize("port", [0, 1, 22, 25, 80, 442, 444, 6379, 8080, 8443, 11211, 65535])
@pytest.mark.parametrize(
    "host", ["mysite.dev", "mysite.dev.", "127.0.0.1", "[::1]", "localhost", "b\u00fccher.de"]
)
def test_other_ports_are_refused(host: str, port: int) -> None:
    assert code(f"https://{host}:{port}/") == "endpoint_port"


INSIDE_4 = [
    "0.0.0.0", "0.1.2.3", "10.0.0.0", "10.0.0.5", "10.255.255.255", "100.64.0.1", "100.100.100.200",
    "100.127.255.255", "127.0.0.1", "127.255.255.254", "168.63.129.16", "169.254.0.1", "169.254.169.254",
    "169.254.170.2", "172.16.0.1", "172.31.255.255", "192.0.0.1", "192.0.0.8", "192.0.0.9", "192.0.0.10",
    "192.0.0.170", "192.0.0.171", "192.0.0.192", "192.0.2.1", "192.31.196.1", "192.52.193.1", "192.88.99.1",
    "192.168.0.1", "192.168.255.255", "192.175.48.1", "198.18.0.1", "198.19.255.255", "198.51.100.7",
    "203.0.113.9", "224.0.0.1", "232.1.1.1", "239.255.255.250", "240.0.0.1", "255.255.255.255",
]  # fmt: skip
INSIDE_6 = [
    "::", "::1", "::2", "::127.0.0.1", "::7f00:1", "::ffff:127.0.0.1", "::ffff:10.0.0.1",
    "::ffff:169.254.169.254", "::ffff:8.8.8.8", "::ffff:0:127.0.0.1", "64:ff9b::7f00:1", "64:ff9b::808:808",
    "64:ff9b::a9fe:a9fe", "64:ff9b:1::1", "64:ff9b:1:fffe::a00:1", "100::1", "100:0:0:1::1", "2001::1",
    "2001:0:4136:e378:8000:63bf:3fff:fdd2", "2001:2::1", "2001:3::1", "2001:4:112::1", "2001:10::1",
    "2001:20::1", "2001:30::1", "2001:1ff:ffff::1", "2001:db8::1", "2001:db8:ffff::1", "2002:7f00:1::1",
    "2002:808:808::1", "2002:a9fe:a9fe::", "2620:4f:8000::1", "3ffe::1", "3fff::1", "3fff:fff::1",
    "4000::1", "5f00::1", "8000::1", "fc00::1", "fd00:ec2::254", "fdff::1", "fe80::1", "febf::1", "fec0::1",
    "feff::1", "ff00::1", "ff02::1", "ff0e::1", "1fff::1", "2606:4700::5efe:a00:1",
    "2606:4700::200:5efe:a00:1", "2a00::5efe:808:808",
]  # fmt: skip


@pytest.mark.parametrize("number", INSIDE_4)
def test_private_addresses_are_refused_in_every_notation(number: str) -> None:
    shown = number.translate({ord("0") + digit: chr(0xFF10 + digit) for digit in range(10)})
    for host in (number, f"{number}.", shown, number.replace(".", "\u3002"), number.replace(".", "\uff61")):
        assert code(f"https://{host}/") == "endpoint_private", host
    assert code(f"https://[::ffff:{number}]/") == "endpoint_private"
    assert not RULE.is_public(ip_address(number))


@pytest.mark.parametrize("number", INSIDE_6)
def test_private_addresses_are_refused_in_long_and_short_form(number: str) -> None:
    address = IPv6Address(number)
    for host in (number, address.exploded, address.exploded.upper(), address.compressed):
        assert code(f"https://[{host}]/") == "endpoint_private", host
    assert not RULE.is_public(address)


@pytest.mark.parametrize(
    "number",
    ["1.1.1.1", "9.255.255.255", "11.0.0.1", "93.184.216.34", "100.63.255.255", "100.128.0.1", "126.255.255.255",
     "128.0.0.1", "168.63.129.15", "168.63.129.17", "169.253.255.255", "169.255.0.1", "172.15.255.255", "172.32.0.1",
     "192.0.1.1", "192.0.3.1", "192.88.98.1", "192.167.255.255", "192.169.0.1", "198.17.255.255", "198.20.0.1",
     "203.0.112.1", "203.0.114.1", "223.255.255.254", "2000::1", "2001:200::1", "2001:4860:4860::8888", "2003::1",
     "2606:4700:4700::1111", "2620:4f:7fff::1", "2a00:1450::1", "3ffd::1", "3fff:1000::1"],
)  # fmt: skip
def test_addresses_next_to_private_networks_are_public(number: str) -> None:
    assert RULE.is_public(ip_address(number))
    assert code(f"https://{f'[{number}]' if ':' in number else number}/") == "ok"


def test_an_address_with_a_zone_is_never_public() -> None:
    assert not RULE.is_public(ip_address("2606:4700:4700::1111%eth0"))


@pytest.mark.parametrize(
    "name",
    ["localhost", "localhost.", "LOCALHOST", "foo.localhost", "localhost.localdomain", "ip6-localhost", "intranet",
     "db", "printer.local", "x.internal", "metadata.google.internal", "host.docker.internal", "wiki.intranet",
     "router.lan", "nas.home", "nas.home.arpa", "db.corp", "vault.private", "x.alt", "x.test", "x.invalid", "x.example",
     "facebook.onion", "1.0.0.127.in-addr.arpa", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local",
     "dev", "metadata",
     "\u24db\u24de\u24d2\u24d0\u24db\u24d7\u24de\u24e2\u24e3", "local\uff48ost", "\uff4cocalhost", "foo\u3002localhost",
     "\u017fvc.\u017fvc", "printer.\uff2c\uff2f\uff23\uff21\uff2c"],
)  # fmt: skip
def test_names_of_private_networks_are_refused(name: str) -> None:
    assert code(f"https://{name}/") == "endpoint_private"


@pytest.mark.parametrize(
    "spelt", ["api.levels.dev", "API.Levels.dev.", "api.levels.dev:443", "\uff41pi.levels\u3002dev"]
)
def test_this_service_itself_is_refused(spelt: str) -> None:
    assert code(f"https://{spelt}/") == "endpoint_self"
    assert code(f"https://{spelt}/", read_rule()) == "ok"
    assert code(f"https://{spelt}/", read_rule("http://API.levels.dev:8000")) == "endpoint_self"


def test_allowing_a_host_allows_only_that_host() -> None:
    rule = read_rule(OWN, "localhost:9443, sink ,[::1]:9443,10.0.0.5, Nas.Home:8443,api.levels.dev:9443")
    for address in ("https://localhost:9443/in", "https://LOCALHOST.:9443/", "https://sink/", "https://sink:443/",
                    "https://[0:0::1]:9443/", "https://10.0.0.5/", "https://nas.home:8443/",
                    "https://api.levels.dev:9443/"):  # fmt: skip
        place = accepted(address, rule)
        assert place.admitted
        assert rule.may_connect(place, ip_address("127.0.0.1"))
    refused = {
        "https://localhost/": "endpoint_private", "https://localhost:9444/": "endpoint_port",
        "https://x.localhost:9443/": "endpoint_port", "https://sink:8443/": "endpoint_port",
        "https://10.0.0.6/": "endpoint_private", "https://[::1]/": "endpoint_private",
        "https://[::ffff:10.0.0.5]/": "endpoint_private", "https://api.levels.dev/": "endpoint_self",
        "http://sink/": "endpoint_not_https", "https://ann@sink/": "endpoint_userinfo",
        "https://sink/#x": "endpoint_invalid", "https://sink/ ": "endpoint_invalid",
    }  # fmt: skip
    assert {address: code(address, rule) for address in refused} == refused
    elsewhere = accepted("https://mysite.dev/", rule)
    assert not elsewhere.admitted
    assert not rule.may_connect(elsewhere, ip_address("10.0.0.5"))


def test_denied_networks_are_denied_to_all() -> None:
    rule = read_rule(OWN, "sink,10.0.0.5,10.0.0.6", "93.184.216.0/24, 2606:4700::/32,10.0.0.5/32")
    assert code("https://93.184.216.34/", rule) == "endpoint_private"
    assert code("https://[2606:4700:4700::1111]/", rule) == "endpoint_private"
    assert code("https://93.184.217.1/", rule) == "ok"
    assert (code("https://10.0.0.5/", rule), code("https://10.0.0.6/", rule)) == ("endpoint_private", "ok")
    sink = accepted("https://sink/", rule)
    answers = ("10.0.0.5", "::ffff:10.0.0.5", "10.0.0.6")
    assert [rule.may_connect(sink, ip_address(number)) for number in answers] == [False, False, True]


@pytest.mark.parametrize(
    "entry",
    [
        "https://sink",
        "sink/in",
        "ann@sink",
        "sink:0443",
        "si nk",
        "127.1",
        "a..b",
        "*.lan",
        "sink:0",
        "sink:65536",
    ],
)
def test_an_invalid_allowed_host_is_named(entry: str) -> None:
    with pytest.raises(ValueError, match="private_hosts"):
        read_rule(private_hosts=f"sink,{entry}")


@pytest.mark.parametrize("entry", ["10.0.0.1/8", "10.0.0.0/33", "sink", "10.*", "::/129"])
def test_an_invalid_denied_network_is_named(entry: str) -> None:
    with pytest.raises(ValueError, match="egress_denied"):
        read_rule(egress_denied=f"192.0.2.0/24,{entry}")


def test_translator_prefixes_of_every_length_are_detected() -> None:
    """RFC 6052, table of 2.4, with 192.0.0.170 (c000:00aa) in place of its example."""
    answers = ["2606:4700:c000:aa::", "2606:4700:1c0:0:aa::", "2606:4700:122:c000:0:aa00::",
               "2606:4700:122:3c0:0:aa::", "2606:4700:122:344:c0:0:aa00::", "2606:4700:122:344::c000:aa",
               "64:ff9b::c000:ab", "192.0.0.170", "192.0.0.171", "2606:4700::1"]  # fmt: skip
    found = translation_networks(map(ip_address, answers))
    assert set(map(str, found)) == {
        "2606:4700::/32", "2606:4700:100::/40", "2606:4700:122::/48", "2606:4700:122:300::/56",
        "2606:4700:122:344::/64", "2606:4700:122:344::/96", "64:ff9b::/96",
    }  # fmt: skip


HOSTS = st.one_of(
    st.from_regex(r"[a-z0-9.-]{1,20}\.(dev|local|com)\.?", fullmatch=True),
    st.ip_addresses(v=4).map(str),
    st.ip_addresses(v=6).map(lambda number: f"[{number}]"),
    st.integers(0, 2**33).map(str),
    st.integers(0, 2**32).map(hex),
    st.text(st.sampled_from("aA1.-_@:[]%\u3002\uff11\u24db\u00fc\u00ad/\\#?"), max_size=20),
)
ADDRESSES = st.one_of(
    st.builds(
        "https://{}{}{}".format, HOSTS, st.sampled_from(["", ":443", ":25", ":"]), st.text(max_size=10)
    ),
    st.text(max_size=40).map(lambda text: f"https://{text}"),
)


@pytest.mark.hypothesis
@given(ADDRESSES)
def test_accepted_urls_are_canonical_and_public(address: str) -> None:
    place = RULE.check(address)
    if isinstance(place, str):
        assert place in {"endpoint_invalid", "endpoint_not_https", "endpoint_userinfo", "endpoint_port",
                         "endpoint_private", "endpoint_self"}  # fmt: skip
        return
    assert RULE.check(place.url) == place
    assert place.url.isascii()
    assert place.port == 443
    authority = place.url.removeprefix("https://").split("/")[0]
    assert read_host(authority) == (place.host, place.ip, 443)
    if place.ip is None:
        assert place.host == place.host.lower()
        assert "." in place.host
        assert not place.host.rpartition(".")[2].isdigit()
    else:
        assert str(place.ip) == place.host
        assert RULE.is_public(place.ip)
