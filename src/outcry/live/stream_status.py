"""What one stream says of itself to whoever runs its feed, here or in another process."""

from dataclasses import dataclass

from outcry.live.health import Phase
from outcry.live.runner import Runner


@dataclass(frozen=True, slots=True)
class StreamStatus:
    """`link`: its connection; `reason`: its standing; `lost`: the code it was last lost with; `login`: whether the
    login was refused; `subscribed`: whether the vendor sends it."""

    link: Phase
    reason: str
    lost: str = ""
    login: bool = False
    subscribed: bool = True


@dataclass(frozen=True, slots=True)
class StreamProgress:
    """How far a stream is, for a feed that begins elsewhere. `latest_ns`: its newest row; `time_ns`: up to where
    nothing is missing but what is known to; `barred_ns`: see `Cursor`; `begin_ns`: where the history of a
    stream without rows begins. ns UTC, 0 where there is none."""

    latest_ns: int
    time_ns: int
    barred_ns: tuple[int, ...] = ()
    begin_ns: int = 0


def status_of(runner: Runner) -> StreamStatus:
    """What a stream says now; of a contract that is not sent, why the vendor says it is not."""
    reason, health = runner.channel.availability.reason, runner.health
    said = runner.channel.feed_code if reason == "unsubscribed" else ""
    return StreamStatus(
        health.phase, said or reason, runner.lost_code, runner.login_refused, health.subscribed
    )
