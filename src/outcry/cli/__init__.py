"""The command line, `outcry …`, with one module per group of commands.

The module of a command is imported when the command runs (decision record 0060). Standard output is meant for pipes. An
error that the user can fix is one line on standard error with exit status 1, never a traceback.
"""

import gc
import sys
from io import TextIOWrapper
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from cyclopts import App, CycloptsError, MissingArgumentError
from cyclopts.help import DefaultFormatter, InlineText

from outcry import __version__
from outcry.base.build_form import form
from outcry.base.portable_files import WINDOWS

if TYPE_CHECKING:
    from cyclopts.help import HelpEntry, HelpPanel
    from rich.console import Console, ConsoleOptions


class Command(NamedTuple):
    """A command: the path of its function or group, and its docstring's summary for the list of commands."""

    path: str
    summary: str


COMMANDS = MappingProxyType(
    {
        "serve": Command(
            "outcry.cli.serving:serve",
            "Run the service until interrupted, in one process or as part of a cluster.",
        ),
        "import": Command(
            "outcry.cli.importing:import_files",
            "Import recordings of trades or bars.",
        ),
        "fetch": Command(
            "outcry.cli.fetching:fetch",
            "Download past sessions and import them: trades from Databento, or candles of the free market.",
        ),
        "refold": Command(
            "outcry.cli.importing:refold",
            "Recompute all sessions from the tape. Run it after a change of session tables, settings or "
            "rules.",
        ),
        "users": Command(
            "outcry.cli.people:users",
            "List, invite and promote users, and reset their passwords.",
        ),
        "keys": Command(
            "outcry.cli.accounts:keys",
            "Create, list and revoke API keys.",
        ),
        "grants": Command(
            "outcry.cli.accounts:grants",
            "Control who can see the operator's recordings and live feed. By default everyone sees the "
            "recordings, 24 hours after the close.",
        ),
        "vault": Command(
            "outcry.cli.vaulting:vault",
            "Manage the keys that encrypt stored broker credentials.",
        ),
        "endpoint": Command(
            "outcry.cli.endpoint:endpoint",
            "Check whether webhook URLs are accepted.",
        ),
        "levels": Command(
            "outcry.cli.reading:levels",
            "Print the key levels of a symbol, from a running service: a table on a terminal, the API's JSON in a "
            "pipe.",
        ),
        "alerts": Command(
            "outcry.cli.reading:alerts",
            "Print today's alerts, from a running service. With --follow, also print new alerts as they fire.",
        ),
        "match": Command(
            "outcry.cli.matching:match",
            "Find the settings that reproduce the levels of another platform.",
        ),
        "replay": Command(
            "outcry.cli.replaying:replay",
            "Play recordings into a running service as a live feed. Levels develop and alerts fire as in a "
            "live session.",
        ),
        "agent": Command(
            "outcry.cli.agent:agent",
            "Run feeds on this machine and push their trades to a service, until stopped.",
        ),
        "session": Command(
            "outcry.cli.sessions:session_at",
            "Print the session that is open at a given time.",
        ),
        "sessions": Command(
            "outcry.cli.sessions:sessions_between",
            "List the sessions from one trade date to another, past or future. Both dates are included.",
        ),
        "instruments": Command(
            "outcry.cli.instruments:instruments",
            "List, add and check products: their ticks, contracts, hours and holidays.",
        ),
        "migrate": Command(
            "outcry.cli.migrating:migrate_database",
            "Upgrade the database to the schema of this version. `outcry serve` also does this at its start.",
        ),
        "doctor": Command(
            "outcry.cli.doctor:doctor",
            "Check the settings, reference tables, database, tape files and live logs. Exit status 1 if "
            "there are faults.",
        ),
        "backup": Command(
            "outcry.cli.backup:backup",
            "Back up the database, tape, live logs, secret and vault key. The service can keep running.",
        ),
        "completion": Command(
            "outcry.cli.completion:completion",
            "Print a completion script for bash, zsh or fish. Save it where your shell looks for completions.",
        ),
    }
)


class ListOfCommands(DefaultFormatter):
    """Formats `--help`, and adds the summaries of commands whose modules are not imported."""

    def __call__(self, console: "Console", options: "ConsoleOptions", panel: "HelpPanel") -> None:
        """Render a panel of help."""
        super().__call__(
            console, options, panel.copy(entries=[_summarised(entry) for entry in panel.entries])
        )


def _summarised(entry: "HelpEntry") -> "HelpEntry":
    command = COMMANDS.get(entry.positive_names[0]) if entry.positive_names else None
    if command is None or entry.description.primary_renderable:
        return entry
    return entry.copy(description=InlineText.from_format(command.summary, "markdown"))


app = App(
    name="outcry",
    version=lambda: f"{__version__} ({form()})",
    help_formatter=ListOfCommands(),
    help="""Key price levels of futures, computed from trades and served over HTTP.

    Try it without data; the demo prints a key and a request:

        outcry serve --demo

    Import recordings, create an API key, start the service and request levels:

        outcry import es-2013-10-08.dbn.zst

        outcry keys create --email you@example.com

        outcry serve

        curl -H "x-api-key: $OUTCRY_KEY" "http://localhost:8000/api/levels?symbol=ES"

    Settings come from OUTCRY_* environment variables or from outcry.toml in the data folder. OUTCRY_DATA sets the
    data folder. Educational context, not advice. Market data keeps its owner's licence.
    """,
)
for _name, _command in COMMANDS.items():
    app.command(_command.path, name=_name)


def _run() -> int | None:
    """Run a command. Python's garbage collector is off while modules load, because it would slow that by a tenth."""
    gc.disable()
    try:
        command, bound, _ = app.parse_args(exit_on_error=False, print_error=False)
    finally:
        gc.freeze()
        gc.enable()
    return command(*bound.args, **bound.kwargs)


def _use_utf8() -> None:
    """Write UTF-8 into pipes and files on Windows too, and never fail for a character that a terminal lacks."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            encoding = "utf-8" if WINDOWS and not stream.isatty() else None
            stream.reconfigure(encoding=encoding, errors="backslashreplace")


def _usage_error(problem: CycloptsError) -> str:
    """Return an error in the arguments as one line, with the command that explains them."""
    called = " ".join(["outcry", *(problem.command_chain or ())])
    text = " ".join(str(problem).split())
    if isinstance(problem, MissingArgumentError) and problem.argument is not None:
        name = problem.argument.name
        by_place = problem.argument.field_info.is_positional
        text = f"{name.removeprefix('--').upper() if by_place else name} is missing."
    return f"{text} Run `{called} --help` to see the usage."


def main() -> None:
    """Run the command line."""
    _use_utf8()
    try:
        sys.exit(_run())
    except CycloptsError as problem:
        print(f"outcry: {_usage_error(problem)}", file=sys.stderr)
        sys.exit(2)
    except BrokenPipeError:  # the reader of our output closed the pipe, as `head` does
        sys.stderr.close()
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
    except Exception as problem:
        from outcry.cli.mendable import MENDABLE  # noqa: PLC0415 - imports all modules that raise them

        if not isinstance(problem, MENDABLE):
            raise
        print(f"outcry: {problem}", file=sys.stderr)
        sys.exit(1)
