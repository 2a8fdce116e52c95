"""Add the revision of each key's last change, so that a process reloads changed keys only.

The previous version changes keys without setting this revision, and must not run beside this one. Before this
migration only one process used a database.
"""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    """Add the column, and indexes by change, user and prefix."""
    op.add_column("keys", sa.Column("changed", sa.BigInteger, nullable=False, server_default="0"))
    for columns in (["changed", "id"], ["user_id"], ["prefix"]):
        op.create_index(f"ix_keys_{'_'.join(columns)}", "keys", columns)
