"""docs/guides/webhooks.md describes what is sent, when it is retried, and what disables a webhook."""

import re
from pathlib import Path

import msgspec
import pytest

from outcry.delivery.chat_content import MARKS
from outcry.delivery.https_webhook import NUMBERS_HEADER, WISH_HEADER
from outcry.delivery.model import Target
from outcry.delivery.schedule import PAUSES_NS
from outcry.delivery.signing import signed
from outcry.delivery.slack import GONE
from outcry.market.units import NANOS_PER_HOUR, NANOS_PER_MINUTE, NANOS_PER_SECOND
from outcry.wire.webhooks import WebhookAlert, WebhookBody

PAGE = (Path(__file__).parents[2] / "docs" / "guides" / "webhooks.md").read_text()
UNITS = {"s": NANOS_PER_SECOND, "min": NANOS_PER_MINUTE, "h": NANOS_PER_HOUR}


def first_column(heading: str) -> list[str]:
    """Return the names in the first column of the table under this heading, in order."""
    table = PAGE.split(heading, 1)[1].split("\n\n", 1)[0]
    return [name for row in table.splitlines()[2:] for name in re.findall(r"`([\w-]+)`", row.split("|")[1])]


def test_the_fields_are_those_of_the_body() -> None:
    assert first_column("| field | |") == [field.name for field in msgspec.structs.fields(WebhookBody)]
    assert first_column("| field of an alert | |") == [
        field.name for field in msgspec.structs.fields(WebhookAlert)
    ]


def test_the_headers_are_those_that_are_sent() -> None:
    sent = ["content-type", *signed("msg_1", b"", ["whsec_AAAA"], 0), NUMBERS_HEADER]
    assert first_column("| header | |") == sent
    assert f"`{WISH_HEADER}: disable`" in PAGE


@pytest.mark.parametrize(
    ("row", "targets"),
    [("HTTPS endpoint", [Target.HTTPS]), ("Slack, Discord", [Target.SLACK, Target.DISCORD])],
)
def test_the_pauses_are_those_of_the_schedule(row: str, targets: list[Target]) -> None:
    (documented,) = re.findall(rf"^\| {row} \| at once, then after ([^|:]+)", PAGE, re.MULTILINE)
    pauses = [int(count) * UNITS[unit] for count, unit in re.findall(r"(\d+) (s|min|h)\b", documented)]
    assert [list(PAUSES_NS[target]) for target in targets] == [pauses] * len(targets)


def test_the_words_that_switch_a_slack_webhook_off_are_all_there() -> None:
    (documented,) = re.findall(
        r"^These Slack responses disable the webhook:(.*?)\n\n", PAGE, re.MULTILINE | re.DOTALL
    )
    assert set(re.findall(r"`(\w+)`", documented)) == GONE


def test_the_marks_of_severities_are_those_of_the_messages() -> None:
    assert [" ".join(mark.split()) for mark in re.findall(r"[■▲●]\s[A-Z]+", PAGE)] == list(MARKS.values())
