"""Add the recording time of alerts. It is NULL for existing alerts."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Add the column `recorded_ns`."""
    op.add_column("alerts", sa.Column("recorded_ns", sa.BigInteger))
