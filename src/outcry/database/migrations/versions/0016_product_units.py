"""Store the tick and size step of each product, and the trading windows of each session.

Existing sessions keep an empty list of windows, which means unknown. The checksum of a session does not include the
windows, so the previous version can run beside this one.
"""

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"


def upgrade() -> None:
    """Create the table of units, and add the column to sessions."""
    op.create_table(
        "product_units",
        sa.Column("root", sa.Text, nullable=False),
        sa.Column("tick_e9", sa.BigInteger, nullable=False),
        sa.Column("size_step_e9", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("root", name="pk_product_units"),
    )
    op.add_column("sessions", sa.Column("segments", sa.Text, nullable=False, server_default="[]"))
