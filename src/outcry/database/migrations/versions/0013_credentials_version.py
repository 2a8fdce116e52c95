"""Add a version of each user's credentials, so that a change ends sign-ins in progress.

Existing users start at version 0. Sign-ins compare it with the version they read.
"""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0008"


def upgrade() -> None:
    """Add the column `credentials_version`."""
    column = sa.Column("credentials_version", sa.BigInteger, nullable=False, server_default="0")
    op.add_column("users", column)
