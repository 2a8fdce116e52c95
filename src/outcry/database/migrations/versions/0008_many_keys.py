"""A million keys: which of them changed since is asked, not read all again.

Rule kept: the program before this one changes keys without saying so, and runs beside it nowhere: several processes on
one database begin here.
"""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    """Add the column, and ways to a user's keys and to one by its first characters."""
    op.add_column("keys", sa.Column("changed", sa.BigInteger, nullable=False, server_default="0"))
    for columns in (["changed", "id"], ["user_id"], ["prefix"]):
        op.create_index(f"ix_keys_{'_'.join(columns)}", "keys", columns)
