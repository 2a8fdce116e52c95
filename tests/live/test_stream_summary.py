"""State of a connection, summarised from its streams."""

import pytest

from outcry.connections.lifecycle import Sign
from outcry.connections.stream_summary import summarize_streams
from outcry.live.health import Phase as Link
from outcry.live.stream_status import StreamStatus

LIVE = StreamStatus(Link.CURRENT, "live")
COMING = StreamStatus(Link.CATCHING_UP, "catching_up")
BEGUN = StreamStatus(Link.CONNECTING, "connecting")
LOST = StreamStatus(Link.LOST, "disconnected", "link_silent")
WITHHELD = StreamStatus(Link.REFUSED, "not_entitled")


@pytest.mark.parametrize(
    ("streams", "sign", "code"),
    [
        ([LIVE, LIVE], Sign.CURRENT, "live"),
        ([LIVE, COMING], Sign.OPENED, "catching_up"),
        ([BEGUN, BEGUN], Sign.BROKE, "connecting"),
        ([BEGUN, COMING], Sign.OPENED, "catching_up"),  # a normal moment during the start
        ([BEGUN, LIVE], Sign.OPENED, "catching_up"),
        ([LOST, LIVE], Sign.TROUBLED, "link_silent"),
        ([LOST, BEGUN, LIVE], Sign.TROUBLED, "link_silent"),
        ([LOST, BEGUN], Sign.BROKE, "link_silent"),
        ([WITHHELD, LIVE], Sign.TROUBLED, "not_entitled"),
        ([WITHHELD, WITHHELD], Sign.REFUSED, "not_entitled"),
        (
            [StreamStatus(Link.REFUSED, "login_refused", login=True), LIVE],
            Sign.LOGIN_REFUSED,
            "login_refused",
        ),
        ([StreamStatus(Link.CURRENT, "stale_market"), BEGUN], Sign.TROUBLED, "stale_market"),
    ],
)
def test_summary_of_several_streams(streams: list[StreamStatus], sign: Sign, code: str) -> None:
    assert summarize_streams(streams) == (sign, code)
