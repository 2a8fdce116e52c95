"""The JSON of the event stream's events, apart from `LevelsAnswer` and `AlertEntry`."""

from typing import Annotated

import msgspec

from outcry.wire.alerts import AlertEntry
from outcry.wire.answers import Answer, DataSource

_LEVELS = msgspec.Meta(extra_json_schema={"$ref": "#/components/schemas/LevelsAnswer"})


class Quote(Answer, frozen=True, kw_only=True):
    """Stream event: the last price changed, and nothing else."""

    symbol: str
    last_price: float
    updated_at: str


class State(Answer, frozen=True, kw_only=True):
    """Stream event: the data source of a symbol.

    `reason`: `live`, or a stable code for why it is not live. `invented`: true if a live feed's trades are simulated;
    null if the symbol is not live.
    """

    symbol: str
    data_source: DataSource | None
    live: bool
    as_of: str | None
    reason: str
    invented: bool | None = None


class Snapshot(Answer, frozen=True, kw_only=True):
    """Current state of all requested symbols.

    `resumed`: the stream continues an earlier one. The server sent the alerts missed since then before this event, and
    `alerts` does not repeat them. `missed`: the client missed too many alerts, and the server sent only the newest of
    them.
    """

    updated_at: str
    resumed: bool
    missed: bool
    levels: list[Annotated[msgspec.Raw, _LEVELS]]
    states: list[State]
    alerts: list[AlertEntry]


class Ticket(Answer, frozen=True, kw_only=True):
    """Answer of `POST /api/stream/ticket`: opens one stream where no header can be sent, as in a browser."""

    ticket: str
    expires_in_seconds: int
