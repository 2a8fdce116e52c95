"""`outcry agent`: run feeds on this machine and push their trades to a service."""

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import App, Parameter

from outcry.base.log_events import discard
from outcry.base.signals import TERMINATION, cancel_on
from outcry.cli.agent_config import Plan, default_path, read_plan, write_config
from outcry.cli.agent_feeds import BadConfig, Means
from outcry.cli.columns import AGENT_CHECKS
from outcry.cli.tables import Output, print_rows
from outcry.live.model import LogInUse

if TYPE_CHECKING:
    from outcry.agent.agent import Agent
    from outcry.market.calendar import Calendar

agent = App(
    name="agent",
    help="""Run feeds on this machine and push their trades to a service, until stopped.

    Use it for sources that a server cannot reach: TWS or IB Gateway on your own machine, a file that Sierra Chart
    writes, or a broker that does not allow servers. The agent only sends trades, over TLS, with a key that has no other
    rights. It stores unsent trades on disk and sends them later, even after hours without the service or after a crash.

        outcry agent init          write an example configuration file

        outcry agent check         check the file, the key and every feed

        outcry agent               run
    """,
)

_Config = Annotated[Path | None, Parameter(name="--config")]


@agent.default
def run(*, config: _Config = None, log: Literal["text", "json"] = "text", insecure: bool = False) -> int:
    """Run the feeds of the configuration file and push their trades to the service, until stopped.

    Parameters
    ----------
    config
        Configuration file. Default: agent.toml in your configuration folder (Linux: ~/.config/outcry).
    log
        text: readable lines, or a status table on a terminal. json: one JSON line per event.
    insecure
        Allow unencrypted HTTP to a service on another machine. The key and the trades are then readable on the network.
    """
    try:
        plan, means, calendar = _plan(config, insecure=insecure)
        return asyncio.run(_run(plan, means, calendar, log))
    except BadConfig as problem:
        print(f"outcry agent: {problem}", file=sys.stderr)
        return 2
    except LogInUse:
        print("outcry agent: Another agent already uses this spool folder. Stop it first.", file=sys.stderr)
        return 1


@agent.command
def init(path: Path | None = None) -> int:
    """Write an example configuration file with all brokers and their fields. Only you can read the file.

    Parameters
    ----------
    path
        File to write. Default: agent.toml in your configuration folder (Linux: ~/.config/outcry).
    """
    from outcry.cli.agent_example import example  # noqa: PLC0415 - imports all brokers

    target = path or default_path(os.environ)
    try:
        write_config(target, example())
    except FileExistsError:
        print(
            f"outcry agent: {target} already exists and was not changed. Give another path.", file=sys.stderr
        )
        return 1
    print(f"Wrote {target}. Fill it in, then run `outcry agent check`.")
    return 0


@agent.command
def check(*, config: _Config = None, insecure: bool = False, output: Output = None) -> int:
    """Check the key and every feed of the configuration file. No trade is sent and nothing is stored.

    Prints one row per check; `result` is ok, failed or not_tried. The exit status is 0 if all checks pass, 1 if a check
    fails and 2 if the file is invalid.

    Parameters
    ----------
    config
        Configuration file. Default: agent.toml in your configuration folder (Linux: ~/.config/outcry).
    insecure
        Allow unencrypted HTTP to a service on another machine. The key is then readable on the network.
    """
    from outcry.cli.agent_check import findings  # noqa: PLC0415 - only this command needs it
    from outcry.cli.agent_words import check_row  # noqa: PLC0415

    try:
        plan, means, _ = _plan(config, insecure=insecure)
    except BadConfig as problem:
        print(f"outcry agent: {problem}", file=sys.stderr)
        return 2
    rows = asyncio.run(findings(plan, means.clock))
    print_rows(AGENT_CHECKS, map(check_row, rows), output)
    return 0 if all(row.passed is not False for row in rows) else 1


def _plan(config: Path | None, *, insecure: bool) -> tuple[Plan, Means, "Calendar"]:
    """Read the configuration file; return its content, the objects that create its feeds, and the calendar.

    The user's own instruments are beside the file, in `instruments/`. Raises `BadConfig` and `BadReference`.
    """
    from outcry.base.clock import SystemClock  # noqa: PLC0415
    from outcry.feeds.adapters import adapters  # noqa: PLC0415 - only two commands need them
    from outcry.trades.reference_tables import load_reference  # noqa: PLC0415

    path = config or default_path(os.environ)
    reference = load_reference(path.parent)
    means = Means(reference.universe, SystemClock(), adapters)
    return read_plan(path, os.environ, means, insecure=insecure), means, reference.calendar


async def _run(plan: Plan, means: Means, calendar: "Calendar", log: str) -> int:
    """Run the agent until a signal. Then stop it after it has sent what the service still accepts."""
    from outcry.agent.agent import Agent, Source  # noqa: PLC0415 - imports the live engine
    from outcry.agent.feed_runner import MarketContext  # noqa: PLC0415
    from outcry.agent.http_transport import HttpTransport  # noqa: PLC0415
    from outcry.agent.spool import Spool  # noqa: PLC0415
    from outcry.cli.agent_words import as_json, as_lines  # noqa: PLC0415
    from outcry.live.file_log import FileLog  # noqa: PLC0415

    plan.spool.mkdir(mode=0o700, parents=True, exist_ok=True)
    shown = log == "text" and sys.stderr.isatty()
    report: Callable[..., object] = as_json(means.clock) if log == "json" else as_lines(means.clock)
    file_log = FileLog(plan.spool)
    with file_log.exclusively():
        market = MarketContext(means.universe, calendar, means.clock)
        spool = Spool(file_log, plan.spool, plan.spool_limit_bytes)
        sources = [Source(feed.name, feed.make()) for feed in plan.feeds]
        working = Agent(sources, spool, HttpTransport(plan.service), market, discard if shown else report)
        running = asyncio.ensure_future(_beside(working, shown=shown))
        cancel_on(running, (*TERMINATION, signal.SIGINT))
        with suppress(asyncio.CancelledError):
            await running
    return 0


async def _beside(working: "Agent", *, shown: bool) -> None:
    """Run the agent. If `shown`, show a status table that updates once a second."""
    if not shown:
        await working.run()
        return
    from rich.console import Console  # noqa: PLC0415
    from rich.live import Live  # noqa: PLC0415

    from outcry.cli.agent_words import REFRESH_S, table  # noqa: PLC0415

    running = asyncio.ensure_future(working.run())
    try:
        with Live(table(working), console=Console(stderr=True), auto_refresh=False) as live:
            while not running.done():
                live.update(table(working), refresh=True)
                await asyncio.wait([running], timeout=REFRESH_S)
        running.result()
    finally:
        running.cancel()
        await asyncio.wait([running])
