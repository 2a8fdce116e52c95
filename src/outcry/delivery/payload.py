"""JSON body of messages to HTTPS endpoints, whose format is documented for users.

The same entries give the same alerts at every attempt. Prices are numbers, formatted as in the read endpoints. Chats
use the same body, so all targets have the same content.
"""

from collections import Counter

import msgspec

from outcry.answers.alerts import params
from outcry.answers.wording import message as sentence
from outcry.delivery.outbox_model import Message
from outcry.live.model import AlertRow
from outcry.market.units import NANOS_PER_MS
from outcry.wire.answers import number
from outcry.wire.webhooks import WebhookAlert, WebhookBody

VERSION = 2
#: Maximum length of `text`, in characters.
LONGEST_TEXT = 500
#: Symbol of a test if the subscription is for all symbols.
TEST_SYMBOL = "ES"
TEST_TYPE = "webhook-test"
TEST_MESSAGE = "Test of your Outcry webhook. This is not a market signal."


_encoder = msgspec.json.Encoder()


def body_of(message: Message, pages: str, now_ns: int) -> WebhookBody:
    """Return the JSON body of a message.

    `pages`: base URL of the pages, without a final slash. `now_ns`: time of a test.
    """
    url = f"{pages}/alerts"
    if not message.entries:
        symbols = message.subscription.symbols
        test = _test(symbols[0] if symbols else TEST_SYMBOL, url, now_ns)
        return WebhookBody(version=VERSION, text=test.message, alerts=[test])
    rows = [entry.alert for entry in message.entries]
    alerts = [_alert(row, url) for row in rows]
    text = shortened(alerts[0].message, LONGEST_TEXT) if len(alerts) == 1 else _summary(rows)
    return WebhookBody(version=VERSION, text=text, alerts=alerts)


def encoded(body: object) -> bytes:
    """Encode a body as compact JSON in UTF-8. NaN and infinity become null."""
    return _encoder.encode(body)


def _alert(row: AlertRow, url: str) -> WebhookAlert:
    return WebhookAlert(
        kind="structure", key=row.key, symbol=row.symbol, type=row.type.value, severity=row.severity,
        session=row.session.value, price=number(row.price_e9), ref=row.ref, message=sentence(row),
        params=params(row.params), url=url,
    )  # fmt: skip


def _test(symbol: str, url: str, now_ns: int) -> WebhookAlert:
    return WebhookAlert(
        kind="test", key=f"{symbol}:{TEST_TYPE}:{now_ns // NANOS_PER_MS}", symbol=symbol, type=TEST_TYPE,
        severity="info", session="rth", price=0, ref="test", message=TEST_MESSAGE, params=None, url=url,
    )  # fmt: skip


def _summary(rows: list[AlertRow]) -> str:
    """Summarise several alerts in one sentence: their number, and as many of their names as fit."""
    end = " (Simulated data.)" if any(row.invented for row in rows) else ""
    summary, left = f"{len(rows)} alerts: ", len(rows)
    room = LONGEST_TEXT - len(end) - len(f", and {left} more.")
    for place, (name, times) in enumerate(Counter(f"{row.symbol} {row.type.value}" for row in rows).items()):
        one = (", " if place else "") + (f"{name} ({times} times)" if times > 1 else name)
        if len(summary) + len(one) > room:
            break
        summary, left = summary + one, left - times
    return summary + (f", and {left} more." if left else ".") + end


def shortened(text: str, most: int) -> str:
    """Shorten a text to `most` UTF-16 units, the unit of chats' limits. A shortened text ends with an ellipsis."""
    if len(text) * 2 <= most or len(text.encode("utf-16-le")) <= 2 * most:
        return text
    return text.encode("utf-16-le")[: 2 * (most - 1)].decode("utf-16-le", "ignore") + "…"
