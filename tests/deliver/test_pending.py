"""What stands where alerts will be delivered from: it judges addresses by what they say, and sends nothing."""

import pytest

from outcry.deliver.pending import PendingDeliverer, judge_url
from outcry.ports.delivery import Target


@pytest.mark.parametrize(
    "address",
    [
        "https://hooks.mysite.dev/in",
        "https://hooks.mysite.dev:443/in?token=1",
        "https://hooks.mysite.dev./in",
        "https://mysite.dev",
        "HTTPS://MySite.DEV/",
        "https://bücher.de/hook",
        "https://93.184.216.34/in",
        "https://[2606:4700:4700::1111]/hook",
    ],
)
def test_a_public_address_is_taken(address: str) -> None:
    assert judge_url(address) == "ok"


@pytest.mark.parametrize(
    ("address", "code"),
    [
        ("http://mysite.dev/", "endpoint_not_https"),
        ("ftp://mysite.dev/", "endpoint_not_https"),
        ("javascript:alert(1)", "endpoint_not_https"),
        ("mysite.dev/in", "endpoint_not_https"),
        ("https://ann@mysite.dev/", "endpoint_userinfo"),
        ("https://mysite.dev@127.0.0.1/", "endpoint_userinfo"),
        ("https://mysite.dev:8443/", "endpoint_port"),
        ("https://mysite.dev:80/", "endpoint_port"),
        ("https://mysite.dev:99999/", "endpoint_invalid"),
        ("https://mysite.dev/#part", "endpoint_invalid"),
        ("https://mysite.dev/ x", "endpoint_invalid"),
        ("https://mysite.dev/\r\nx: y", "endpoint_invalid"),
        ("https://mysite.dev\\@127.0.0.1/", "endpoint_invalid"),
        ("https://127%2e0%2e0%2e1/", "endpoint_invalid"),
        ("https://-bad-.dev/", "endpoint_invalid"),
        ("https://[::1/", "endpoint_invalid"),
        ("https://[fe80::1%25eth0]/", "endpoint_invalid"),
        ("https://" + "a" * 2000 + ".dev/", "endpoint_invalid"),
        ("https://localhost/", "endpoint_private"),
        ("https://LOCALHOST./", "endpoint_private"),
        ("https://printer.local/", "endpoint_private"),
        ("https://kubernetes.default.svc/", "endpoint_private"),
        ("https://intranet/", "endpoint_private"),
        ("https://127.0.0.1/", "endpoint_private"),
        ("https://10.1.2.3/", "endpoint_private"),
        ("https://169.254.169.254/latest", "endpoint_private"),
        ("https://168.63.129.16/", "endpoint_private"),
        ("https://224.0.0.1/", "endpoint_private"),
        ("https://0.0.0.0/", "endpoint_private"),
        ("https://[::1]/", "endpoint_private"),
        ("https://[::ffff:127.0.0.1]/", "endpoint_private"),
        ("https://[64:ff9b::7f00:1]/", "endpoint_private"),
        ("https://[2002:7f00:1::1]/", "endpoint_private"),
        ("https://[fd00::1]/", "endpoint_private"),
        ("https://2130706433/", "endpoint_invalid"),
        ("https://0x7f000001/", "endpoint_invalid"),
        ("https://127.1/", "endpoint_invalid"),
        ("https://0177.0.0.1/", "endpoint_invalid"),
    ],
)
def test_any_other_is_refused_by_its_code(address: str, code: str) -> None:
    assert judge_url(address) == code


def test_nothing_is_sent_and_nothing_is_said_to_have_been() -> None:
    deliverer = PendingDeliverer()
    assert deliverer.running is False
    assert deliverer.judge(Target.EMAIL, "ann@example.com") == "ok"
    assert deliverer.judge(Target.HTTPS, "https://10.0.0.1/") == "endpoint_private"
