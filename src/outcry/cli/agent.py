"""`outcry agent`: runs feeds on this machine and pushes what they bring to a service."""

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import App, Parameter

from outcry.cli.agent_config import Plan, default_path, read_plan, write_private
from outcry.cli.agent_feeds import BadConfig, Means
from outcry.ports.live import LogInUse

if TYPE_CHECKING:
    from outcry.client.agent import Agent

agent = App(
    name="agent",
    help="""Run feeds on this machine and push what they bring to a service, until stopped.

    For what a server cannot reach: TWS or IB Gateway on your own machine, a file that Sierra Chart is writing, a broker
    that forbids servers. Trades go outward only, over TLS, with a key that can do nothing else. What the service does
    not take is kept on disk and sent later: the service may be away for hours, and this program killed at any moment.

        outcry agent init          write ~/.config/outcry/agent.toml, an example to fill in

        outcry agent check         is everything there? what is missing?

        outcry agent               run
    """,
)

_Config = Annotated[Path | None, Parameter(name="--config")]


@agent.default
def run(*, config: _Config = None, log: Literal["text", "json"] = "text", insecure: bool = False) -> int:
    """Run until stopped.

    Parameters
    ----------
    config
        The file; otherwise ~/.config/outcry/agent.toml.
    log
        text: for people, a table where it is a terminal; json: a line of JSON for whatever happens.
    insecure
        Let key and trades go unencrypted to a service that is not on this machine.
    """
    if sys.platform == "win32":
        print("outcry agent: run it in WSL 2, where it reaches TWS too (docs/agent.md)", file=sys.stderr)
        return 2
    try:
        plan, means = _plan(config, insecure=insecure)
        return asyncio.run(_run(plan, means, log))
    except BadConfig as problem:
        print(f"outcry agent: {problem}", file=sys.stderr)
        return 2
    except LogInUse:
        print("outcry agent: another agent runs with this file's spool; end it first", file=sys.stderr)
        return 1


@agent.command
def init(path: Path | None = None) -> int:
    """Write an example of the agent's file, readable by you alone, with every broker and what it asks for.

    Parameters
    ----------
    path
        Where to; otherwise ~/.config/outcry/agent.toml.
    """
    from outcry.cli.agent_example import example  # noqa: PLC0415 - with it come the brokers

    target = path or default_path(os.environ)
    try:
        write_private(target, example())
    except FileExistsError:
        print(f"outcry agent: {target} is there already; it is left as it is", file=sys.stderr)
        return 1
    print(f"wrote {target}: fill it in, then run `outcry agent check`")
    return 0


@agent.command
def check(*, config: _Config = None, insecure: bool = False) -> int:
    """Try the key and every feed of the file, and say what is missing. Nothing is kept, and no trade is sent.

    The exit status is 0 where everything is there.

    Parameters
    ----------
    config
        The file; otherwise ~/.config/outcry/agent.toml.
    insecure
        Let the key go unencrypted to a service that is not on this machine.
    """
    from outcry.cli.agent_check import findings  # noqa: PLC0415 - the other commands do without
    from outcry.cli.agent_words import print_findings  # noqa: PLC0415

    try:
        plan, means = _plan(config, insecure=insecure)
    except BadConfig as problem:
        print(f"outcry agent: {problem}", file=sys.stderr)
        return 2
    rows = asyncio.run(findings(plan, means.clock))
    print_findings(rows)
    return 0 if all(passed is not False for _, _, _, passed, _ in rows) else 1


def _plan(config: Path | None, *, insecure: bool) -> tuple[Plan, Means]:
    """The file, and what feeds are made with. Raises `BadConfig`."""
    from outcry.feeds.adapters import adapters  # noqa: PLC0415 - the other commands need none
    from outcry.store.reference import load_reference  # noqa: PLC0415
    from outcry.wiring import SystemClock  # noqa: PLC0415

    means = Means(load_reference().universe, SystemClock(), adapters)
    return read_plan(config or default_path(os.environ), os.environ, means, insecure=insecure), means


async def _run(plan: Plan, means: Means, log: str) -> int:
    """Run until told to stop; then end cleanly."""
    from outcry.bus.log import FileLog  # noqa: PLC0415 - there is no such lock on Windows
    from outcry.cli.agent_words import as_json, as_lines  # noqa: PLC0415
    from outcry.client.agent import Agent, Source  # noqa: PLC0415 - with it comes the live engine
    from outcry.client.carrying import Market  # noqa: PLC0415
    from outcry.client.over_http import OverHttp  # noqa: PLC0415
    from outcry.client.spool import Spool  # noqa: PLC0415
    from outcry.store.reference import load_reference  # noqa: PLC0415

    plan.spool.mkdir(mode=0o700, parents=True, exist_ok=True)
    shown = log == "text" and sys.stderr.isatty()
    tell: Callable[..., object] = as_json(means.clock) if log == "json" else as_lines(means.clock)
    file_log = FileLog(plan.spool)
    with file_log.exclusively():
        market = Market(means.universe, load_reference().calendar, means.clock)
        spool = Spool(file_log, plan.spool, plan.spool_limit_bytes)
        sources = [Source(feed.name, feed.make()) for feed in plan.feeds]
        working = Agent(sources, spool, OverHttp(plan.service), market, say_nothing if shown else tell)
        running = asyncio.ensure_future(_beside(working, shown=shown))
        loop = asyncio.get_running_loop()
        for sign in (signal.SIGTERM, signal.SIGINT):
            with suppress(NotImplementedError):  # there are no such signals on Windows
                loop.add_signal_handler(sign, running.cancel)
        with suppress(asyncio.CancelledError):
            await running
    return 0


async def _beside(working: "Agent", *, shown: bool) -> None:
    """Run the agent; on a terminal show how everything stands, once a second."""
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


def say_nothing(*_said: object, **_details: object) -> None:
    """Tell nobody: everything is on the terminal."""
