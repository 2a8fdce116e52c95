"""Add broker connections, their encrypted credentials and the encryption keys; add licences and a log of grants.

Existing grants stay valid.
"""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    """Create the tables; add the licence to grants."""
    op.create_table(
        "connections",
        sa.Column("id", sa.Integer, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_connections"),
        sa.Column("user_id", sa.Integer, nullable=False),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name="fk_connections_user_id"),
        *(sa.Column(name, sa.Text, nullable=False) for name in ("broker", "label", "phase", "code")),
        sa.Column("since_ns", sa.BigInteger, nullable=False),
        sa.Column("roots", sa.Text, nullable=False),
        sa.Column("hint", sa.Text, nullable=False),
        sa.Column("created_ns", sa.BigInteger, nullable=False),
        sa.UniqueConstraint("user_id", "broker", name="uq_connections_user_id_broker"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "vault_keys",
        sa.Column("kid", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("kid", name="pk_vault_keys"),
        sa.Column("canary", sa.LargeBinary, nullable=False),
        sa.Column("made_ns", sa.BigInteger, nullable=False),
        sa.Column("retired_ns", sa.BigInteger),
    )
    op.create_table(
        "credentials",
        sa.Column("connection_id", sa.Integer, nullable=False, autoincrement=False),
        sa.PrimaryKeyConstraint("connection_id", name="pk_credentials"),
        sa.ForeignKeyConstraint(
            ["connection_id"], ["connections.id"], name="fk_credentials_connection_id", ondelete="CASCADE"
        ),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("kid", sa.Text, nullable=False),
        sa.ForeignKeyConstraint(["kid"], ["vault_keys.kid"], name="fk_credentials_kid"),
        sa.Column("wrapped", sa.LargeBinary, nullable=False),
        sa.Column("sealed", sa.LargeBinary, nullable=False),
    )
    op.create_index("ix_credentials_kid", "credentials", ["kid"])
    _widen_grants()


def _widen_grants() -> None:
    op.add_column("grants", sa.Column("licence", sa.Text, nullable=False, server_default=""))
    op.create_table(
        "grant_log",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer, "sqlite"), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_grant_log"),
        sa.Column("grant_id", sa.Integer, nullable=False),
        sa.ForeignKeyConstraint(["grant_id"], ["grants.id"], name="fk_grant_log_grant_id"),
        sa.Column("at_ns", sa.BigInteger, nullable=False),
        sa.Column("event", sa.Text, nullable=False),
        sa.Column("by", sa.Text, nullable=False),
        sa.Column("attested", sa.Text, nullable=False),
    )
