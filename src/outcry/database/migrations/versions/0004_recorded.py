"""Add the recording time of alerts. It is NULL for existing alerts."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Add `recorded_ns` to `alerts`: when an alert was recorded, in ns UTC."""
    op.add_column("alerts", sa.Column("recorded_ns", sa.BigInteger))
