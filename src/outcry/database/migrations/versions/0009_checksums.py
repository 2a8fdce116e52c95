"""Add checksums of stored data: a digest for each tape file, a checksum for rows that answers depend on.

Existing rows get the checksum of their current values. Tape files have an empty digest until each has been read and
compared with its stored counts. The previous version can run beside this one; it writes neither.
"""

import sqlalchemy as sa
from alembic import op

from outcry.database.checksums import add_missing

revision = "0009"
down_revision = "0013"  # was merged before this migration, despite its number


def upgrade() -> None:
    """Add the columns and the table of recordings by import, and compute the checksums of existing rows."""
    op.add_column("recordings", sa.Column("digest", sa.Text, nullable=False, server_default=""))
    for name in ("recordings", "sessions", "alerts"):
        op.add_column(name, sa.Column("checksum", sa.LargeBinary))
    op.create_table(
        "import_recordings",
        sa.Column("owner", sa.Integer, nullable=False),
        sa.Column("digest", sa.Text, nullable=False),
        sa.Column("contract", sa.Text, nullable=False),
        sa.Column("trade_date", sa.Date, nullable=False),
        sa.Column("source", sa.Text, nullable=False),
        sa.Column("quality", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint(
            "owner", "digest", "contract", "trade_date", "source", "quality", name="pk_import_recordings"
        ),
    )
    op.create_index(
        "ix_import_recordings_owner_contract_trade_date", "import_recordings", ["owner", "contract", "trade_date"]
    )
    connection = op.get_bind()
    for name in ("recordings", "sessions", "alerts"):
        add_missing(connection, sa.Table(name, sa.MetaData(), autoload_with=connection))
