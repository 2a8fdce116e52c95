"""The first schema: accounts, grants, imports, recordings, sessions.

The first grant lets every user see the operator's completed sessions one day after their close. The operator can
change it with `outcry grants`. With a single user no grant is needed.
"""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

DAY_NS = 24 * 3600 * 1_000_000_000


def _counts() -> list[sa.Column[int]]:
    names = ("rows", "volume", "off_tick", "out_of_order", "first_ns", "last_ns", "received_ns")
    return [sa.Column(name, sa.BigInteger, nullable=False) for name in names]


def upgrade() -> None:
    """Create the tables, the row with the revision (counter of changes), and the first grant."""
    revision_table = op.create_table("revision", sa.Column("n", sa.BigInteger, nullable=False))
    op.bulk_insert(revision_table, [{"n": 1}])
    op.create_table(
        "users",
        sa.Column("id", sa.Integer, nullable=False),
        sa.Column("email", sa.Text, nullable=False),
        sa.Column("created_ns", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_users"),
        sa.UniqueConstraint("email", name="uq_users_email"),
    )
    op.create_table(
        "keys",
        sa.Column("id", sa.Integer, nullable=False),
        sa.Column("user_id", sa.Integer, nullable=False),
        sa.Column("tier", sa.Text, nullable=False),
        sa.Column("prefix", sa.Text, nullable=False),
        sa.Column("digest", sa.LargeBinary, nullable=False),
        sa.Column("created_ns", sa.BigInteger, nullable=False),
        sa.Column("revoked_ns", sa.BigInteger),
        sa.PrimaryKeyConstraint("id", name="pk_keys"),
        sa.UniqueConstraint("digest", name="uq_keys_digest"),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name="fk_keys_user_id"),
    )
    grants = op.create_table(
        "grants",
        sa.Column("id", sa.Integer, nullable=False),
        sa.Column("grantee", sa.Text, nullable=False),
        sa.Column("scope", sa.Text, nullable=False),
        sa.Column("roots", sa.Text, nullable=False),
        sa.Column("from_date", sa.Date),
        sa.Column("until_date", sa.Date),
        sa.Column("embargo_ns", sa.BigInteger, nullable=False),
        sa.Column("created_ns", sa.BigInteger, nullable=False),
        sa.Column("revoked_ns", sa.BigInteger),
        sa.PrimaryKeyConstraint("id", name="pk_grants"),
    )
    op.bulk_insert(
        grants, [{"grantee": "everyone", "scope": "completed", "roots": "", "embargo_ns": DAY_NS, "created_ns": 0}]
    )
    op.create_table(
        "imports",
        sa.Column("owner", sa.Integer, nullable=False),
        sa.Column("digest", sa.Text, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("at_ns", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("owner", "digest", name="pk_imports"),
    )
    op.create_table(
        "recordings",
        sa.Column("owner", sa.Integer, nullable=False),
        sa.Column("contract", sa.Text, nullable=False),
        sa.Column("trade_date", sa.Date, nullable=False),
        sa.Column("source", sa.Text, nullable=False),
        sa.Column("quality", sa.Text, nullable=False),
        sa.Column("path", sa.Text, nullable=False),
        *_counts(),
        sa.Column("spans", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("owner", "contract", "trade_date", "source", "quality", name="pk_recordings"),
        sa.UniqueConstraint("path", name="uq_recordings_path"),
    )
    op.create_table(
        "sessions",
        sa.Column("owner", sa.Integer, nullable=False),
        sa.Column("contract", sa.Text, nullable=False),
        sa.Column("trade_date", sa.Date, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("root", sa.Text, nullable=False),
        sa.Column("open_ns", sa.BigInteger, nullable=False),
        sa.Column("close_ns", sa.BigInteger, nullable=False),
        sa.Column("source", sa.Text, nullable=False),
        sa.Column("quality", sa.Text, nullable=False),
        sa.Column("complete", sa.Integer, nullable=False),
        sa.Column("short", sa.Integer, nullable=False),
        *_counts(),
        sa.Column("profile", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("owner", "contract", "trade_date", "kind", name="pk_sessions"),
    )
    op.create_index("ix_sessions_owner_root", "sessions", ["owner", "root"])
