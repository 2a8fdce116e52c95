"""`verify_webhook` accepts what the service signs, and nothing else."""

import base64

import msgspec
import pytest

from outcry.client import InvalidWebhook, verify_webhook
from outcry.delivery.signing import signed
from outcry.wire.webhooks import WebhookAlert, WebhookBody

SECRET = "whsec_" + base64.b64encode(b"a secret of 24 bytes....").decode()
OTHER = "whsec_" + base64.b64encode(b"another secret, 24 bytes").decode()
NOW_S = 1_800_000_000
BODY = msgspec.json.encode(
    WebhookBody(
        version=2, text="ES …",
        alerts=[
            WebhookAlert(
                kind="structure", key="ES:va-test-high:1", symbol="ES", type="va-test-high", severity="info",
                session="rth", price=6900.25, ref="VAH", message="ES …", params={"vah": 6900.25},
                url="https://outcry.example/alerts",
            )
        ],
    )
)  # fmt: skip


def headers(*secrets: str, body: bytes = BODY) -> dict[str, str]:
    return signed("msg_1", body, secrets, NOW_S * 1_000_000_000)


@pytest.mark.parametrize("secrets", [(SECRET,), (OTHER, SECRET)], ids=["one secret", "while it is replaced"])
def test_a_message_of_the_service_is_decoded(secrets: tuple[str, ...]) -> None:
    given = {name.title(): value for name, value in headers(*secrets).items()}
    found = verify_webhook(given, BODY, SECRET, now_s=NOW_S + 299)
    assert (found.alerts[0].key, found.alerts[0].price) == ("ES:va-test-high:1", 6900.25)
    assert found.to_dict()["version"] == 2


@pytest.mark.parametrize(
    ("given", "body", "now_s"),
    [
        (headers(OTHER), BODY, NOW_S),
        (headers(SECRET), BODY + b" ", NOW_S),
        (headers(SECRET) | {"webhook-id": "msg_2"}, BODY, NOW_S),
        (headers(SECRET) | {"webhook-timestamp": str(NOW_S + 1)}, BODY, NOW_S),
        (headers(SECRET) | {"webhook-timestamp": "soon"}, BODY, NOW_S),
        (headers(SECRET), BODY, NOW_S + 301),
        (headers(SECRET), BODY, NOW_S - 301),
        (headers(), BODY, NOW_S),
        ({}, BODY, NOW_S),
        (headers(SECRET, body=b"{}"), b"{}", NOW_S),
        (headers(SECRET) | {"webhook-signature": "v1,ü"}, BODY, NOW_S),
        ({name: value.replace("v1,", "v2,") for name, value in headers(SECRET).items()}, BODY, NOW_S),
    ],
)  # fmt: skip
def test_anything_else_is_refused(given: dict[str, str], body: bytes, now_s: int) -> None:
    with pytest.raises(InvalidWebhook):
        verify_webhook(given, body, SECRET, now_s=now_s)


def test_a_malformed_secret_is_named_but_not_repeated() -> None:
    with pytest.raises(ValueError, match="begins with whsec_") as caught:
        verify_webhook(headers(SECRET), BODY, "whsec_nonsense!", now_s=NOW_S)
    assert not isinstance(caught.value, InvalidWebhook)
    assert "nonsense" not in str(caught.value)
