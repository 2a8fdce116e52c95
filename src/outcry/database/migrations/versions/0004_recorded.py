"""Alerts say when they were recorded; of those there are it is not known."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Add the column."""
    op.add_column("alerts", sa.Column("recorded_ns", sa.BigInteger))
