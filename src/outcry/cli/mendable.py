"""Errors that the user can fix: the command line prints them as one line."""

from sqlalchemy.exc import SQLAlchemyError

from outcry.app.secret import MissingSecret
from outcry.app.settings import BadSettings
from outcry.app.vault import BadVaultKeys
from outcry.base.extras import MissingExtra
from outcry.database.errors import StoreBusy
from outcry.database.migrate import NotUnicode, SchemaTooNew
from outcry.live.model import LogDamaged, LogInUse
from outcry.recordings.file_model import FileRefused
from outcry.recordings.tape_errors import TapeDamaged, TapeInUse
from outcry.sessions.product_units import UnitsChanged
from outcry.trades.own_tables import TablesChanged, TablesInUse
from outcry.trades.reference_tables import BadReference

MENDABLE = (
    BadReference, BadSettings, BadVaultKeys, FileRefused, LogDamaged, LogInUse, MissingExtra, MissingSecret, NotUnicode,
    OSError, SQLAlchemyError, SchemaTooNew, StoreBusy, TablesChanged, TablesInUse, TapeDamaged,
    TapeInUse, UnitsChanged,
)  # fmt: skip
