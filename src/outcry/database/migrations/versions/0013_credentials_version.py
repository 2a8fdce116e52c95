"""Sign-ins in progress end when credentials change: each user has a version of the credentials.

Rule kept: rows written by the program before this one start at version 0, which every proof checked since then carries.
"""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0008"


def upgrade() -> None:
    """Add the column."""
    column = sa.Column("credentials_version", sa.BigInteger, nullable=False, server_default="0")
    op.add_column("users", column)
