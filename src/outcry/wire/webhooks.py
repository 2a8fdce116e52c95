"""The JSON body of messages to HTTPS endpoints, for the service that sends them and for programs that receive them."""

from typing import ClassVar, Literal

from outcry.wire.alerts import ParamValue, Severity
from outcry.wire.answers import Answer


class WebhookAlert(Answer, frozen=True, kw_only=True):
    """One alert in the body of a webhook message. `key` is the same at every attempt. `params` is null in a test."""

    kind: Literal["structure", "test"]
    key: str
    symbol: str
    type: str
    severity: Severity
    session: Literal["rth", "eth"]
    price: float | int
    ref: str
    message: str
    params: dict[str, ParamValue] | None
    url: str


class WebhookBody(Answer, frozen=True, kw_only=True):
    """The JSON body of a webhook message.

    `text`, for people: the sentence of one alert, or a summary of several. `alerts`, for programs: in the order
    recorded.
    """

    _rows: ClassVar[str] = "alerts"

    version: int
    text: str
    alerts: list[WebhookAlert]
