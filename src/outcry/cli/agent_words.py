"""What an agent says to whoever runs it: each code in plain words, with what to do; a line a feed on a terminal."""

import json
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from rich.console import Console
from rich.table import Table
from rich.text import Text

from outcry.client.agent import Agent
from outcry.core.units import NANOS_PER_SECOND
from outcry.ports.clock import Clock

WORDS = {
    # of a feed
    "login_refused": "the broker does not take these entries: correct them in the file, then start again",
    "login_expired": "the token or password has ended: renew it with the broker, write it into the file, start again",
    "not_entitled": "the account has no real-time data of this: order it from the broker",
    "unknown_contract": "the broker does not have this contract",
    "too_many_sessions": "the account is signed in elsewhere too often: sign out there",
    "not_allowed": "the broker forbids this to the account, or from this place",
    "wrong_entry": "the broker cannot use an entry: correct it in the file, then start again",
    "unreachable": "nobody answers: does the program run, and is its API switched on; is the network there?",
    "disconnected": "the connection broke; it is made again",
    "link_silent": "the connection has gone silent; it is made again",
    "rate_limited": "the broker asks for patience; it is tried again",
    "vendor_error": "the broker reports a fault; it is tried again",
    "protocol": "what the broker sent cannot be read; it is tried again",
    "seam_overflow": "too much came while history was fetched; it is tried again",
    "file_unreadable": "the file is not there or cannot be read; it is tried again",
    "no_room": "neither the disk nor the memory has room; it is tried again",
    "agent_stopped": "the agent was stopped",
    # of the service
    "unauthorized": "the service does not know the key, or it was revoked: make another for pushing",
    "forbidden": "the key reads, and does not push: make one for pushing",
    "occupied": "another program pushes this contract for the same user: end that one, or wait until it is silent",
    "connected": "the service is connected to this broker for you: disconnect it there, or take the feed out here",
    "feed": "the service has a feed of its own of this name: give this one another name in the file",
    "times": "the service finds the times impossible: set this machine's clock",
    "streams": "the service takes no more streams of this user",
    "too_many": "the service takes no more contracts of this user for now",
    "quota": "the service stores no more data of this user: ask its operator for a larger quota",
    "disk_reserve": "the disk of the service is nearly full: its operator must free space; it is tried again",
    "expired": "the contract trades no more",
}  # fmt: skip
#: What a finding of a check is called where it passed.
_PASSED = {
    "ticks": "trade by trade", "bars_1s": "in bars of a second", "bars_1m": "in bars of a minute", "none": "none",
}  # fmt: skip
REFRESH_S = 1.0
#: Columns where there is no terminal that says how many it has.
_WIDE = 200


def words_of(code: str) -> str:
    """A code in plain words; the code itself where there are none."""
    return WORDS.get(code) or _PASSED.get(code) or code


def as_json(clock: Clock) -> Callable[..., None]:
    """Lines of JSON on standard error."""

    def tell(event: str, **details: object) -> None:
        at = datetime.fromtimestamp(clock.now_ns() // NANOS_PER_SECOND, UTC)
        line = {"at": f"{at:%Y-%m-%dT%H:%M:%SZ}", "event": event, **details}
        print(json.dumps(line, default=str), file=sys.stderr, flush=True)

    return tell


def as_lines(clock: Clock) -> Callable[..., None]:
    """Plain lines on standard error, for people."""

    def tell(event: str, **details: object) -> None:
        at = datetime.fromtimestamp(clock.now_ns() // NANOS_PER_SECOND, UTC)
        whose = " ".join(str(details.pop(name)) for name in ("feed", "contract") if name in details)
        code = str(details.pop("code", ""))
        problem = str(details.pop("problem", ""))
        said = [
            whose,
            event,
            words_of(code) if code else "",
            problem if not code or code not in WORDS else "",
        ]
        said += [f"{name} {value}" for name, value in details.items()]
        print(f"{at:%H:%M:%S} " + ": ".join(filter(None, said)), file=sys.stderr, flush=True)

    return tell


def table(agent: Agent) -> Table:
    """How everything stands: a line a feed and contract, and one of the service."""
    found = Table(box=None, pad_edge=False)
    for column in ("feed", "contract", "state", "trades", "newest", "to send", ""):
        found.add_column(column, justify="right" if column in {"trades", "to send"} else "left")
    for key, follower in sorted(agent.followers.items()):
        seen, line = follower.seen, follower.line
        refused = agent.outward.refused.get(key, "")
        newest = f"{_time(line.latest_ns)} UTC" if line.latest_ns else ""
        said = words_of(refused or seen.code) if refused or seen.code else ""
        found.add_row(
            key.feed,
            key.contract.key,
            seen.phase.replace("_", " "),
            f"{seen.rows:,}",
            newest,
            f"{line.waiting:,}",
            _plain(said),
        )
    reached = agent.outward.reached
    said = "" if reached.code == "ok" else words_of(reached.code) if reached.code in WORDS else reached.text
    how = "takes what is sent" if reached.code == "ok" else reached.code
    found.add_row("service", "", _plain(how), "", "", "", _plain(said))
    if agent.disk:
        found.add_row("spool", "", "cannot be written", "", "", "", _plain(agent.disk))
    return found


def _plain(text: str) -> Text:
    """As it is: what others have said is no markup, and moves no cursor."""
    return Text("".join(sign for sign in text if sign.isprintable()))


def _time(at_ns: int) -> str:
    return f"{datetime.fromtimestamp(at_ns // NANOS_PER_SECOND, UTC):%H:%M:%S}"


def print_findings(rows: Sequence[tuple[str, str, str, bool | None, str]]) -> None:
    """A table of what was looked at: feed, contract, step, whether it passed (None: not tried), code."""
    found = Table(box=None, pad_edge=False)
    for column in ("feed", "contract", "", "", ""):
        found.add_column(column, overflow="fold")
    marks = {True: "ok", False: "missing", None: "not tried"}
    for feed, contract, step, passed, code in rows:
        said = "" if code in {"ok", "not_tried"} else words_of(code)
        found.add_row(feed, contract, step.replace("_", " "), marks[passed], _plain(said))
    Console(width=None if sys.stdout.isatty() else _WIDE).print(found)
