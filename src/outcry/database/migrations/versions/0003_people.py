"""Add sign-in, preferences, the audit log, labels and expiry of keys, and webhook subscriptions.

Existing keys keep their owners. These users become members, who cannot sign in until an operator invites them.
"""

import secrets
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"

_HANDLE_BYTES = 32
_LONG = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def _columns(kind: Any, *names: str, nullable: bool = False) -> list[sa.Column[Any]]:
    return [sa.Column(name, kind, nullable=nullable) for name in names]


def _id(table: str, kind: Any = sa.Integer) -> tuple[Any, ...]:
    return sa.Column("id", kind, nullable=False), sa.PrimaryKeyConstraint("id", name=f"pk_{table}")


def _of_user(table: str, *, nullable: bool = False) -> tuple[Any, ...]:
    return (
        sa.Column("user_id", sa.Integer, nullable=nullable),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name=f"fk_{table}_user_id"),
    )


def _once(table: str, column: str) -> tuple[Any, ...]:
    return (
        sa.Column(column, sa.LargeBinary, nullable=False),
        sa.UniqueConstraint(column, name=f"uq_{table}_{column}"),
    )


def upgrade() -> None:
    """Add columns to users and keys; create the tables that belong to users."""
    op.add_column("revision", sa.Column("people", sa.BigInteger, nullable=False, server_default="0"))
    _widen_users()
    _create_proofs()
    _create_audit()
    _create_subscriptions()
    for column in (
        sa.Column("label", sa.Text, nullable=False, server_default=""),
        *_columns(sa.BigInteger, "expires_ns", "last_used_ns", nullable=True),
        sa.Column("replaced_by", sa.Integer),
    ):
        op.add_column("keys", column)


def _widen_users() -> None:
    for name, kind, default in (
        ("role", sa.Text, "member"),
        ("tier", sa.Text, "free"),
        ("handle", sa.LargeBinary, ""),
        ("language", sa.Text, ""),
        ("time_zone", sa.Text, "America/New_York"),
        ("theme", sa.Text, "auto"),
        ("digest_hour", sa.Integer, "17"),
        ("shortcuts", sa.Integer, "1"),
    ):
        op.add_column("users", sa.Column(name, kind, nullable=False, server_default=default))
    for column in (
        *_columns(sa.BigInteger, "disabled_ns", "totp_step", nullable=True),
        sa.Column("password_hash", sa.Text),
        sa.Column("totp_sealed", sa.LargeBinary),
    ):
        op.add_column("users", column)
    users = sa.table("users", sa.column("id", sa.Integer), sa.column("handle", sa.LargeBinary))
    connection = op.get_bind()
    for number in connection.execute(sa.select(users.c.id)).scalars().all():
        handle = secrets.token_bytes(_HANDLE_BYTES)
        connection.execute(users.update().where(users.c.id == number).values(handle=handle))
    # All users had the same handle until this point. SQLite can add an index to an existing table, but no constraint.
    op.create_index("uq_users_handle", "users", ["handle"], unique=True)


def _create_proofs() -> None:
    op.create_table(
        "passkeys",
        *_id("passkeys"),
        *_of_user("passkeys"),
        *_once("passkeys", "credential_id"),
        sa.Column("public_key", sa.LargeBinary, nullable=False),
        *_columns(sa.BigInteger, "sign_count", "created_ns"),
        *_columns(sa.Text, "transports", "label"),
        sa.Column("last_used_ns", sa.BigInteger),
    )
    op.create_index("ix_passkeys_user_id", "passkeys", ["user_id"])
    op.create_table(
        "recovery_codes",
        *_of_user("recovery_codes"),
        sa.Column("digest", sa.LargeBinary, nullable=False),
        sa.Column("used_ns", sa.BigInteger),
        sa.PrimaryKeyConstraint("user_id", "digest", name="pk_recovery_codes"),
    )
    op.create_table(
        "browser_sessions",
        *_id("browser_sessions"),
        *_of_user("browser_sessions"),
        *_once("browser_sessions", "digest"),
        *_columns(sa.BigInteger, "created_ns", "seen_ns", "confirmed_ns"),
        *_columns(sa.Text, "address", "agent"),
        sa.Column("ended_ns", sa.BigInteger),
    )
    op.create_index("ix_browser_sessions_user_id", "browser_sessions", ["user_id"])
    op.create_table(
        "tokens",
        *_id("tokens"),
        *_of_user("tokens", nullable=True),
        *_once("tokens", "digest"),
        *_columns(sa.Text, "purpose", "email", "details"),
        sa.Column("browser", sa.LargeBinary),
        *_columns(sa.BigInteger, "created_ns", "expires_ns"),
        sa.Column("spent_ns", sa.BigInteger),
    )


def _create_audit() -> None:
    op.create_table(
        "audit",
        *_id("audit", _LONG),
        *_of_user("audit"),
        sa.Column("at_ns", sa.BigInteger, nullable=False),
        *_columns(sa.Text, "event", "details", "address", "agent"),
    )
    op.create_index("ix_audit_user_id_id", "audit", ["user_id", "id"])


def _create_subscriptions() -> None:
    op.create_table(
        "subscriptions",
        *_id("subscriptions"),
        *_of_user("subscriptions"),
        *_columns(
            sa.Text, "target", "label", "shown", "symbols", "min_severity", "phase", "reason", "secret_last4"
        ),
        sa.Column("sealed_address", sa.LargeBinary, nullable=False),
        *_columns(sa.LargeBinary, "sealed_secret", "sealed_old_secret", nullable=True),
        sa.Column("old_until_ns", sa.BigInteger),
        sa.Column("created_ns", sa.BigInteger, nullable=False),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_subscriptions_user_id", "subscriptions", ["user_id"])
    op.create_table(
        "attempts",
        *_id("attempts", _LONG),
        sa.Column("subscription_id", sa.Integer, nullable=False),
        sa.ForeignKeyConstraint(
            ["subscription_id"], ["subscriptions.id"], name="fk_attempts_subscription_id", ondelete="CASCADE"
        ),
        *_columns(sa.BigInteger, "at_ns"),
        *_columns(sa.Text, "alert_key", "alert_type", "symbol", "outcome", "code", "excerpt"),
        sa.Column("status", sa.Integer),
        *_columns(sa.BigInteger, "took_ms", "next_ns", nullable=True),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_attempts_subscription_id_id", "attempts", ["subscription_id", "id"])
