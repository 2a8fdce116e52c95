"""The command line, `outcry …`, with one module per group of commands.

Standard output is meant for pipes. An error that the user can fix is one line on standard error with exit status 1,
never a traceback.
"""

import sys

from cyclopts import App
from sqlalchemy.exc import SQLAlchemyError

from outcry import __version__
from outcry.app.secret import MissingSecret
from outcry.app.settings import BadSettings
from outcry.app.vault import BadVaultKeys
from outcry.base.build_form import form
from outcry.cli import (
    accounts,
    agent,
    backup,
    doctor,
    endpoint,
    fetching,
    importing,
    people,
    reading,
    replaying,
    serving,
    sessions,
    vaulting,
)
from outcry.database.errors import StoreBusy
from outcry.database.migrate import NotUnicode, SchemaTooNew
from outcry.live.model import LogDamaged, LogInUse
from outcry.recordings.file_model import FileRefused
from outcry.recordings.tape import TapeDamaged
from outcry.recordings.tape_changes import TapeInUse
from outcry.trades.reference_tables import BadReference

MENDABLE = (
    BadReference, BadSettings, BadVaultKeys, FileRefused, LogDamaged, LogInUse, MissingSecret, NotUnicode, OSError,
    SQLAlchemyError, SchemaTooNew, StoreBusy, TapeDamaged, TapeInUse,
)  # fmt: skip

app = App(
    name="outcry",
    version=lambda: f"{__version__} ({form()})",
    help="""Key price levels of futures, computed from trades and served over HTTP.

    Import recordings, create an API key, start the service and request levels:

        outcry import es-2013-10-08.dbn.zst

        outcry keys create --email you@example.com

        outcry serve

        curl -H "x-api-key: $OUTCRY_KEY" "http://localhost:8000/api/levels?symbol=ES"

    Settings come from OUTCRY_* environment variables or from outcry.toml in the data folder. OUTCRY_DATA sets the
    data folder. Educational context, not advice. Market data keeps its owner's licence.
    """,
)
app.command(serving.serve)
app.command(importing.import_files, name="import")
app.command(fetching.fetch)
app.command(importing.refold)
app.command(people.users)
app.command(accounts.keys)
app.command(accounts.grants)
app.command(vaulting.vault)
app.command(endpoint.endpoint)
app.command(reading.levels)
app.command(reading.alerts)
app.command(replaying.replay)
app.command(agent.agent)
app.command(sessions.session_at, name="session")
app.command(sessions.sessions_between, name="sessions")
app.command(serving.migrate_database, name="migrate")
app.command(doctor.doctor)
app.command(backup.backup)


def main() -> None:
    """Run the command line."""
    try:
        sys.exit(app())
    except BrokenPipeError:  # the reader of our output closed the pipe, as `head` does
        sys.stderr.close()
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
    except MENDABLE as problem:
        print(f"outcry: {problem}", file=sys.stderr)
        sys.exit(1)
