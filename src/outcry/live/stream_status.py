"""The status of a stream for the component that runs its feed, in this process or another."""

from dataclasses import dataclass

from outcry.live.health import Phase
from outcry.live.runner import Runner


@dataclass(frozen=True, slots=True)
class StreamStatus:
    """The status of a stream and of the feed that delivers it.

    link: phase of the feed's connection. reason: why the stream is or is not available (`Availability`). lost: code of
    the last lost connection. login: whether the vendor refused the login. subscribed: whether the vendor sends the
    contract.
    """

    link: Phase
    reason: str
    lost: str = ""
    login: bool = False
    subscribed: bool = True


@dataclass(frozen=True, slots=True)
class StreamProgress:
    """Up to when a stream has data, for a feed that runs in another process.

    Times in ns UTC, 0 if there is none. latest_ns: the newest row. time_ns: end of the complete data, logged gaps
    excepted. barred_ns: starts of minutes for which there are bars but no trades (`Cursor`). begin_ns: where the
    history of a stream without rows starts.
    """

    latest_ns: int
    time_ns: int
    barred_ns: tuple[int, ...] = ()
    begin_ns: int = 0


def status_of(runner: Runner) -> StreamStatus:
    """Return the current status of a stream, with the vendor's own reason if it does not send the contract."""
    reason, health = runner.channel.availability.reason, runner.health
    said = runner.channel.feed_code if reason == "unsubscribed" else ""
    return StreamStatus(
        health.phase, said or reason, runner.lost_code, runner.login_refused, health.subscribed
    )
