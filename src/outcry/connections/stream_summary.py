"""Summarise the status of a connection's streams as one event for its state machine (`Sign`) and a reason code.

A connection is live if every stream is up to date, degraded if some are not, and refused if the vendor refuses all.
"""

from collections.abc import Sequence

from outcry.connections.lifecycle import Sign
from outcry.live.health import Phase as Link
from outcry.live.stream_status import StreamStatus

#: Reasons of streams that are up to date; the connection shows the first that occurs.
_GOOD = ("live", "not_front", "no_prior", "no_trades", "incomplete", "degraded", "closed")
#: Reasons of streams that are catching up.
_COMING = ("connecting", "catching_up")


#: Status of a stream that has not started yet, and of one that should have started by now.
NOT_STARTED = StreamStatus(Link.CONNECTING, "connecting")
START_OVERDUE = StreamStatus(Link.LOST, "disconnected", "disconnected")


def summarize_streams(streams: Sequence[StreamStatus]) -> tuple[Sign, str]:
    """Return the event (`Sign`) and reason code of a connection, given the status of all its streams."""
    refused = [one for one in streams if one.link is Link.REFUSED]
    login = next((one for one in refused if one.login), None)
    if login is not None:  # all streams share one login
        return Sign.LOGIN_REFUSED, login.reason
    if streams and len(refused) == len(streams):
        return Sign.REFUSED, refused[0].reason
    apart = [one for one in streams if one.link in {Link.CONNECTING, Link.LOST}]
    followed = [one for one in streams if one not in refused]
    if len(apart) == len(followed):
        return Sign.BROKE, next((one.lost for one in apart if one.lost), "connecting")
    if not refused and all(one.link is Link.CONNECTING and not one.lost for one in apart):
        apart = []  # they are starting, a moment after the others
    if apart or refused:
        first = (apart or refused)[0]
        return Sign.TROUBLED, first.lost or first.reason
    trouble = next((one.reason for one in streams if one.reason not in {*_GOOD, *_COMING}), "")
    if trouble:
        return Sign.TROUBLED, trouble
    if any(one.link in {Link.CONNECTING, Link.CATCHING_UP} or one.reason in _COMING for one in streams):
        return Sign.OPENED, "catching_up"
    return Sign.CURRENT, min((one.reason for one in streams), key=_GOOD.index)
