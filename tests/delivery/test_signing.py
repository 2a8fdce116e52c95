"""Signatures verified by the public libraries of the Standard Webhooks specification in Python and JavaScript."""

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from time import time_ns  # noqa: TID251 - the libraries go by the machine's clock

import pytest
from standardwebhooks import Webhook, WebhookVerificationError
from tests.delivery.javascript import Node, node
from tests.delivery.messages import PAGES, ScriptedEgress, StillClock, alert, make_message, reply, send

from outcry.delivery.https_webhook import HttpsSender
from outcry.delivery.model import Target
from outcry.delivery.signing import signed

__all__ = ["node"]  # a fixture

NEW = "whsec_" + "bmV3bmV3bmV3bmV3bmV3bmV3bmV3bmV3bmV3bmV3bmU="
OLD = "whsec_" + "b2xkb2xkb2xkb2xkb2xkb2xkb2xkb2xkb2xkb2xkb2w="
OTHER = "whsec_" + "b3RoZXJvdGhlcm90aGVyb3RoZXJvdGhlcm90aGVyb3Q="
#: A body with non-ASCII characters is signed as the bytes that are sent.
BODY = '{"version":2,"text":"ÄÖ — ■ \U0001f514","alerts":[]}'.encode()


def made(secrets: Sequence[str], *, at_ns: int | None = None, body: bytes = BODY) -> dict[str, str]:
    return signed("msg_2yZC7cDjpkJZ", body, secrets, time_ns() if at_ns is None else at_ns)


#: Secrets that sign, the secret that verifies, and whether it succeeds; the third alters a secret.
CASES = [
    ([NEW], NEW, True),
    ([NEW], OTHER, False),
    ([NEW, OLD], NEW, True),
    ([NEW, OLD], OLD, True),
    ([NEW, OLD], OTHER, False),
]


@pytest.mark.parametrize(("secrets", "secret", "good"), CASES)
def test_the_python_library_agrees(secrets: list[str], secret: str, good: bool) -> None:
    headers = made(secrets)
    if good:
        assert Webhook(secret).verify(BODY, headers) == json.loads(BODY)
    else:
        with pytest.raises(WebhookVerificationError):
            Webhook(secret).verify(BODY, headers)


@pytest.mark.parametrize("late_s", [-301, 301])
def test_the_time_is_signed_and_judged(late_s: int) -> None:
    headers = made([NEW], at_ns=time_ns() + late_s * 10**9)
    with pytest.raises(WebhookVerificationError):
        Webhook(NEW).verify(BODY, headers)
    headers["webhook-timestamp"] = made([NEW])["webhook-timestamp"]  # another time than was signed
    with pytest.raises(WebhookVerificationError):
        Webhook(NEW).verify(BODY, headers)


def test_a_byte_more_or_another_id_is_noticed() -> None:
    with pytest.raises(WebhookVerificationError):
        Webhook(NEW).verify(BODY + b" ", made([NEW]))
    with pytest.raises(WebhookVerificationError):
        Webhook(NEW).verify(BODY, made([NEW]) | {"webhook-id": "msg_another"})


def test_the_javascript_library_agrees(node: Node) -> None:
    asked = [(secret, made(secrets), BODY.decode(), good) for secrets, secret, good in CASES]
    late = made([NEW], at_ns=time_ns() - 301 * 10**9)
    asked += [(NEW, late, BODY.decode(), False), (NEW, made([NEW]), BODY.decode() + " ", False)]
    answers = node.verified([(secret, headers, body) for secret, headers, body, _ in asked])
    assert answers == [good for *_, good in asked]


@pytest.mark.parametrize("secrets", [[NEW], [NEW, OLD]])
def test_the_sent_body_is_the_signed_body(secrets: list[str], node: Node) -> None:
    egress = ScriptedEgress([reply()])
    sender = HttpsSender(egress, PAGES, StillClock(time_ns()))
    send(sender, make_message(Target.HTTPS, [alert(ref="Ä—■")]), secrets=secrets)
    ((_, body, headers),) = egress.posts
    assert [Webhook(secret).verify(body, headers)["version"] for secret in secrets] == [2] * len(secrets)
    assert all(node.verified([(secret, headers, body.decode()) for secret in secrets]))


def test_newest_signature_is_first_and_none_without_a_secret() -> None:
    both = made([NEW, OLD], at_ns=10**18)["webhook-signature"]
    assert both == " ".join(made([one], at_ns=10**18)["webhook-signature"] for one in (NEW, OLD))
    assert set(made([])) == {"webhook-id", "webhook-timestamp"}


def test_a_known_signature() -> None:
    """Computed by `openssl dgst -sha256 -hmac` with the secret's bytes over `id.time.body`."""
    headers = signed(
        "msg_p5jXN8AQM9LWM0D4loKWxJek", b'{"test": 2432232314}', ["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"],
        1_614_265_330 * 10**9,
    )  # fmt: skip
    assert headers["webhook-signature"] == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_the_request_does_not_contain_the_secret() -> None:
    egress = ScriptedEgress([reply(500, b"no")])
    sent = send(
        HttpsSender(egress, PAGES, StillClock()), make_message(Target.HTTPS, [alert()]), secrets=[NEW, OLD]
    )
    for secret in (NEW, OLD):
        assert secret.removeprefix("whsec_") not in f"{egress.posts}{sent}"


def test_what_is_installed_for_the_test_is_what_was_locked() -> None:
    """The lock file has a digest of every package of the JavaScript test."""
    lock = json.loads((Path(__file__).parent / "javascript" / "package-lock.json").read_text())
    packages = {name: one for name, one in lock["packages"].items() if name}
    assert "node_modules/standardwebhooks" in packages
    assert all(one["integrity"].startswith("sha512-") for one in packages.values())


def test_node_is_the_one_of_the_python_packages(node: Node) -> None:
    version = subprocess.run([node.program, "--version"], capture_output=True, text=True, check=True).stdout
    assert version.startswith("v24.")
