"""What the streams of a connection say of it: one sign, and the code of why.

Rule kept: a connection is as good as what it is to bring: it is live when every stream is up to date, troubled when
some are not, and refused when all are.
"""

from collections.abc import Sequence

from outcry.connections.lifecycle import Sign
from outcry.live.health import Phase as Link
from outcry.live.stream_status import StreamStatus

#: Standings of a stream that is up to date, in the order in which they speak for the connection.
_GOOD = ("live", "not_front", "no_prior", "no_trades", "incomplete", "degraded", "closed")
#: And of one that is on the way there.
_COMING = ("connecting", "catching_up")


#: What is said for a stream that has not begun, and for one that has not although there was time.
NOT_STARTED = StreamStatus(Link.CONNECTING, "connecting")
START_OVERDUE = StreamStatus(Link.LOST, "disconnected", "disconnected")


def summarize_streams(streams: Sequence[StreamStatus]) -> tuple[Sign, str]:
    """The sign of all of them together, and its code."""
    refused = [one for one in streams if one.link is Link.REFUSED]
    login = next((one for one in refused if one.login), None)
    if login is not None:  # all share one login
        return Sign.LOGIN_REFUSED, login.reason
    if streams and len(refused) == len(streams):
        return Sign.REFUSED, refused[0].reason
    apart = [one for one in streams if one.link in {Link.CONNECTING, Link.LOST}]
    followed = [one for one in streams if one not in refused]
    if len(apart) == len(followed):
        return Sign.BROKE, next((one.lost for one in apart if one.lost), "connecting")
    if not refused and all(one.link is Link.CONNECTING and not one.lost for one in apart):
        apart = []  # they are only a moment behind the others
    if apart or refused:
        first = (apart or refused)[0]
        return Sign.TROUBLED, first.lost or first.reason
    trouble = next((one.reason for one in streams if one.reason not in {*_GOOD, *_COMING}), "")
    if trouble:
        return Sign.TROUBLED, trouble
    if any(one.link in {Link.CONNECTING, Link.CATCHING_UP} or one.reason in _COMING for one in streams):
        return Sign.OPENED, "catching_up"
    return Sign.CURRENT, min((one.reason for one in streams), key=_GOOD.index)
