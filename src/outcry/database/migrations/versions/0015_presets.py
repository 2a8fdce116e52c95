"""Store settings of profiles that users saved under names of their own.

The previous version can run beside this one; it does not know the table.
"""

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"


def upgrade() -> None:
    """Create the table of saved settings."""
    op.create_table(
        "presets",
        sa.Column("id", sa.Integer, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_presets"),
        sa.Column("user_id", sa.Integer, nullable=False),
        sa.ForeignKeyConstraint(
            ["user_id"], ["users.id"], name="fk_presets_user_id", ondelete="CASCADE"
        ),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("setting", sa.Text, nullable=False),
        sa.Column("created_ns", sa.BigInteger, nullable=False),
        sa.UniqueConstraint("user_id", "name", name="uq_presets_user_id_name"),
    )
