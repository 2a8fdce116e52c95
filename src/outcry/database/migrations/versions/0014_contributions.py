"""Store how each file was read, and which rows each import contributed to a recording, so that it can be undone.

Existing imports keep NULL in the new columns: their rows are in the recording's tape file, together with those of other
imports. The previous version can run beside this one; it writes none of the columns.
"""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0010"


def upgrade() -> None:
    """Add the columns to the tables of imports and of their recordings."""
    op.add_column("imports", sa.Column("sha256", sa.Text, nullable=False, server_default=""))
    op.add_column("imports", sa.Column("bytes", sa.BigInteger))
    op.add_column("imports", sa.Column("rows", sa.BigInteger))
    op.add_column("imports", sa.Column("read_as", sa.Text))
    table = "import_recordings"
    op.add_column(table, sa.Column("position", sa.Integer, nullable=False, server_default="0"))
    op.add_column(table, sa.Column("path", sa.Text))
    op.add_column(table, sa.Column("file_digest", sa.Text, nullable=False, server_default=""))
    for name in ("rows", "volume", "first_ns", "last_ns"):
        op.add_column(table, sa.Column(name, sa.BigInteger, nullable=False, server_default="0"))
    op.add_column(table, sa.Column("spans", sa.Text, nullable=False, server_default="[]"))
    op.add_column(table, sa.Column("from_feed", sa.Integer, nullable=False, server_default="0"))
    op.add_column(table, sa.Column("set_aside", sa.Text, nullable=False, server_default="[]"))
    op.create_index("ix_import_recordings_path", table, ["path"])
