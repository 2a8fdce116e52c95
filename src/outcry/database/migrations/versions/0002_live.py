"""Add live streams: alerts, positions and snapshots; add the role of a key, which reads data or pushes trades."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Create the tables of streams. Existing keys read data."""
    op.create_table(
        "alerts",
        sa.Column("seq", sa.BigInteger().with_variant(sa.Integer, "sqlite"), nullable=False),
        *(
            sa.Column(name, kind, nullable=False)
            for name, kind in (
                ("owner", sa.Integer),
                ("feed", sa.Text),
                ("contract", sa.Text),
                ("symbol", sa.Text),
                ("type", sa.Text),
                ("severity", sa.Text),
                ("session", sa.Text),
                ("trade_date", sa.Date),
                ("key", sa.Text),
                ("at_ns", sa.BigInteger),
                ("price_e9", sa.BigInteger),
                ("ref", sa.Text),
                ("params", sa.Text),
                ("invented", sa.Integer),
            )
        ),
        sa.PrimaryKeyConstraint("seq", name="pk_alerts"),
        sa.UniqueConstraint("owner", "feed", "key", name="uq_alerts_owner_feed_key"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_alerts_owner_seq", "alerts", ["owner", "seq"])
    op.create_index("ix_alerts_owner_symbol_trade_date", "alerts", ["owner", "symbol", "trade_date"])
    op.create_table(
        "positions",
        sa.Column("stream", sa.Text, nullable=False),
        sa.Column("position", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("stream", name="pk_positions"),
    )
    op.create_table(
        "snapshots",
        sa.Column("stream", sa.Text, nullable=False),
        sa.Column("position", sa.BigInteger, nullable=False),
        sa.Column("data", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("stream", name="pk_snapshots"),
    )
    op.add_column("keys", sa.Column("role", sa.Text, nullable=False, server_default="read"))
