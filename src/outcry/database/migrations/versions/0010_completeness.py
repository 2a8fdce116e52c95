"""Add the gaps of sessions, and whether a live feed was among the sources of a recording.

Sources that only files have are marked as not from a feed. All other sources count as from a feed until their files
are imported again. A row that did not match its checksum does not match the new one either.
"""

import sqlalchemy as sa
from alembic import op

from outcry.database import checksums

revision = "0010"
down_revision = "0009"

_FILE_SOURCES = ("lean", "kibot", "firstrate", "ninjatrader", "tradingview", "csv", "parquet")
_NO_CHECKSUM = b""


def upgrade() -> None:
    """Add the columns, and recompute the checksums of sound rows. `outcry refold` fills the columns of sessions."""
    connection = op.get_bind()
    for name in ("recordings", "sessions"):
        table = sa.Table(name, sa.MetaData(), autoload_with=connection)
        damaged = checksums.read(connection, table, lambda query: query).damaged
        connection.execute(table.update().values(checksum=None))
        for row in damaged:
            same = [column == row.values[column.name] for column in table.primary_key.columns]
            connection.execute(table.update().where(*same).values(checksum=_NO_CHECKSUM))
    op.add_column("sessions", sa.Column("holes", sa.Text, nullable=False, server_default="[]"))
    op.add_column("sessions", sa.Column("activity", sa.Text, nullable=False, server_default="[]"))
    op.add_column("recordings", sa.Column("from_feed", sa.Integer, nullable=False, server_default="0"))
    recordings = sa.table("recordings", sa.column("source", sa.Text), sa.column("from_feed", sa.Integer))
    op.execute(recordings.update().where(recordings.c.source.not_in(_FILE_SOURCES)).values(from_feed=1))
    for name in ("recordings", "sessions"):
        checksums.add_missing(connection, sa.Table(name, sa.MetaData(), autoload_with=connection))
