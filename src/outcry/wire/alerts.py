"""Alerts as the API returns them and as the event stream sends them."""

from typing import ClassVar, Literal

from outcry.wire.answers import Answer

Severity = Literal["info", "warn", "critical"]
ParamValue = float | int | str | bool | list[int] | None


class Alert(Answer, frozen=True, kw_only=True):
    """An alert. `ref`: label of the level, or the trade date of the session that made the level."""

    symbol: str
    type: str
    severity: Severity
    price: float
    ref: str
    message: str


class AlertsAnswer(Answer, frozen=True, kw_only=True):
    """Answer of `GET /api/alerts`, newest first."""

    _rows: ClassVar[str] = "alerts"

    updated_at: str
    count: int
    alerts: list[Alert]


class AlertEntry(Answer, frozen=True, kw_only=True):
    """An alert with all its details.

    `key`: unique within its feed. `seq`: position in the order in which alerts were recorded. `at`: exchange time.
    `params`: the measured values, prices as numbers. `recorded_at`: when the alert was recorded, by the same clock as
    `at`; much later than `at` after a backfill, null if not stored. `invented`: true if the trades are simulated.
    """

    symbol: str
    type: str
    severity: Severity
    price: float
    ref: str
    message: str
    key: str
    seq: int
    at: str
    session: Literal["rth", "eth"]
    contract: str
    trade_date: str
    data_source: Literal["personal", "shared"]
    invented: bool
    params: dict[str, ParamValue]
    recorded_at: str | None = None


class AlertsHistoryAnswer(Answer, frozen=True, kw_only=True):
    """Answer of `GET /api/alerts/history`, newest first.

    `next_before`: the `before` of the next page; null on the last page.
    """

    _rows: ClassVar[str] = "alerts"

    count: int
    alerts: list[AlertEntry]
    next_before: int | None
