"""Messages of the agent: a sentence with a remedy for each code, log lines, rows of checks and the status table."""

import json
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from outcry.agent.agent import Agent
from outcry.base.clock import Clock
from outcry.base.log_events import LogEvent
from outcry.cli.tables import Cell
from outcry.market.units import NANOS_PER_SECOND

if TYPE_CHECKING:
    from outcry.cli.agent_check import CheckResult

WORDS = {
    # codes of a feed
    "login_refused": "The broker rejected the credentials. Correct them in the file and restart the agent.",
    "login_expired": "The token or password has expired. Renew it with the broker, then update the file and restart.",
    "not_entitled": "The account has no real-time data for this product. Subscribe to it with the broker.",
    "unknown_contract": "The broker does not offer this contract.",
    "too_many_sessions": "The account has too many open sessions elsewhere. Sign out of one.",
    "not_allowed": "The broker does not allow this for the account or from this network.",
    "wrong_entry": "The broker rejected a value. Correct it in the file and restart the agent.",
    "unreachable": "No response. Check that the program is running, its API is enabled and the network is up.",
    "disconnected": "Connection lost. Reconnecting.",
    "link_silent": "Connected, but no data or heartbeats received. Reconnecting.",
    "rate_limited": "The broker limits requests. Retrying later.",
    "vendor_error": "The broker reported an error. Retrying.",
    "protocol": "The broker sent an invalid message. Retrying.",
    "seam_overflow": "Too many trades arrived while history was loading. Retrying.",
    "file_unreadable": "The file does not exist or cannot be read. Retrying.",
    "no_room": "Disk and memory are full. Free disk space. Retrying.",
    "agent_stopped": "The agent was stopped.",
    # codes of the service
    "unauthorized": "The service rejected the key. Create a new key for pushing.",
    "forbidden": "The key cannot push trades. Create a key for pushing.",
    "occupied": "Another program pushes this contract for the same user. Stop one of them.",
    "connected": "The service is already connected to this broker for you. Disconnect it there, or remove this feed.",
    "feed": "The service has its own feed of this name. Give this feed another name in the file.",
    "times": "The service rejected the timestamps. Check this machine's clock.",
    "streams": "The user has reached the maximum number of streams.",
    "too_many": "The user has reached the maximum number of contracts for now.",
    "quota": "The user's storage quota is full. Ask the operator for a larger quota.",
    "disk_reserve": "The service's disk is nearly full. Its operator must free space. Retrying.",
    "expired": "The contract has expired.",
}  # fmt: skip
#: Results of passed checks.
_PASSED = {"ticks": "trades", "bars_1s": "1-second bars", "bars_1m": "1-minute bars", "none": "none"}
REFRESH_S = 1.0


def words_of(code: str) -> str:
    """Return the message for a status code of the agent, or the code itself if it has none."""
    return WORDS.get(code) or _PASSED.get(code) or code


def as_json(clock: Clock) -> Callable[..., None]:
    """Return a function that writes events to standard error as JSON lines."""

    def report(event: LogEvent, **details: object) -> None:
        at = datetime.fromtimestamp(clock.now_ns() // NANOS_PER_SECOND, UTC)
        line = {"at": f"{at:%Y-%m-%dT%H:%M:%SZ}", "level": event.level, "event": event, **details}
        print(json.dumps(line, default=str), file=sys.stderr, flush=True)

    return report


def as_lines(clock: Clock) -> Callable[..., None]:
    """Return a function that writes events to standard error as readable lines."""

    def report(event: LogEvent, **details: object) -> None:
        at = datetime.fromtimestamp(clock.now_ns() // NANOS_PER_SECOND, UTC)
        whose = " ".join(str(details.pop(name)) for name in ("feed", "contract") if name in details)
        code = str(details.pop("code", ""))
        problem = str(details.pop("problem", ""))
        phase = str(details.pop("phase", "")).replace("_", " ")
        parts = [
            whose,
            phase or event.meaning,
            words_of(code) if code else "",
            problem if not code or code not in WORDS else "",
        ]
        parts += [f"{name} {value}" for name, value in details.items()]
        print(f"{at:%H:%M:%S} " + ": ".join(filter(None, parts)), file=sys.stderr, flush=True)

    return report


def table(agent: Agent) -> Table:
    """Return the status table: a row per feed and contract, and one for the service."""
    found = Table(box=None, pad_edge=False)
    for column in ("feed", "contract", "state", "trades", "last trade", "unsent", ""):
        found.add_column(column, justify="right" if column in {"trades", "unsent"} else "left")
    for key, follower in sorted(agent.followers.items()):
        status, queue = follower.status, follower.queue
        refused = agent.sender.refused.get(key, "")
        newest = f"{_time(queue.position.latest_ns)} UTC" if queue.position.latest_ns else ""
        parts = words_of(refused or status.code) if refused or status.code else ""
        found.add_row(
            key.feed,
            key.contract.key,
            status.phase.replace("_", " "),
            f"{status.rows:,}",
            newest,
            f"{queue.waiting:,}",
            _plain(parts),
        )
    service = agent.sender.service
    parts = "" if service.code == "ok" else words_of(service.code) if service.code in WORDS else service.text
    how = "connected" if service.code == "ok" else service.code
    found.add_row("service", "", _plain(how), "", "", "", _plain(parts))
    if agent.disk_problem:
        found.add_row("spool", "", "not writable", "", "", "", _plain(agent.disk_problem))
    return found


def _plain(text: str) -> Text:
    """Return text without markup and control characters, because it may come from a remote host."""
    return Text(_printable(text))


def _printable(text: str) -> str:
    return "".join(sign for sign in text if sign.isprintable())


def _time(at_ns: int) -> str:
    return f"{datetime.fromtimestamp(at_ns // NANOS_PER_SECOND, UTC):%H:%M:%S}"


def check_row(found: "CheckResult") -> tuple[Cell, ...]:
    """Return a check as a row of `outcry agent check`."""
    result = {True: "ok", False: "failed", None: "not_tried"}[found.passed]
    message = found.message or ("" if found.code in {"ok", "not_tried"} else words_of(found.code))
    return found.feed, found.contract, found.step, result, found.code, _printable(message)
