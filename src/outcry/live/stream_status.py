"""The status of a stream, for the component that runs the stream's feed in this process or another."""

from dataclasses import dataclass

from outcry.live.health import Phase
from outcry.live.runner import Runner


@dataclass(frozen=True, slots=True)
class StreamStatus:
    """The status of a stream and of the feed that delivers it.

    link: phase of the feed's connection. reason: why the stream is or is not available (`Availability`). lost: code
    with which the connection was lost last. login: whether the vendor refused the login. subscribed: whether the vendor
    sends the contract.
    """

    link: Phase
    reason: str
    lost: str = ""
    login: bool = False
    subscribed: bool = True


@dataclass(frozen=True, slots=True)
class StreamProgress:
    """Up to when a stream has data, for a feed that runs in another process.

    Times are ns UTC, 0 if there is none. latest_ns: time of the newest row. time_ns: until then the data is complete,
    except for gaps in the log. barred_ns: starts of the minutes for which there are bars but no trades (`Cursor`).
    begin_ns: where the history of a stream without rows starts.
    """

    latest_ns: int
    time_ns: int
    barred_ns: tuple[int, ...] = ()
    begin_ns: int = 0


def status_of(runner: Runner) -> StreamStatus:
    """Return the current status of a stream. If the vendor does not send the contract, the reason is the vendor's."""
    reason, health = runner.channel.availability.reason, runner.health
    said = runner.channel.feed_code if reason == "unsubscribed" else ""
    return StreamStatus(
        health.phase, said or reason, runner.lost_code, runner.login_refused, health.subscribed
    )
