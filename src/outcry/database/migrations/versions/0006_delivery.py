"""Add delivery of alerts: the outbox, and the table `lanes` with the delivery queue of each subscription.

Existing subscriptions keep their settings. Earlier alerts are not added to their outbox.
"""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"

_LONG = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    """Add columns to subscriptions, attempts and alerts; create the outbox, and a queue for each subscription."""
    for table, name, kind, default in (
        ("subscriptions", "ordered", sa.Integer, "0"),
        ("subscriptions", "window", sa.Text, "hour"),
        ("subscriptions", "at_once", sa.Integer, "1"),
        ("attempts", "message_id", sa.Text, ""),
        ("attempts", "alerts", sa.Integer, "1"),
        ("attempts", "number", sa.Integer, "1"),
        ("attempts", "phases", sa.Text, ""),
        ("attempts", "shown", sa.Text, ""),
    ):
        op.add_column(table, sa.Column(name, kind, nullable=False, server_default=default))
    op.add_column("alerts", sa.Column("written_ns", sa.BigInteger))
    op.create_index("ix_attempts_at_ns", "attempts", ["at_ns"])
    _create_lanes()
    _create_outbox()


def _create_lanes() -> None:
    op.create_table(
        "lanes",
        *_of("lanes", "subscription_id", "subscriptions.id"),
        sa.PrimaryKeyConstraint("subscription_id", name="pk_lanes"),
        sa.Column("worker", sa.Text, nullable=False, server_default=""),
        *_zeros(sa.BigInteger, "leased_until_ns"),
        sa.Column("due_ns", sa.BigInteger),
        *_zeros(sa.BigInteger, "sent_ns", "closed_until_ns"),
        *_zeros(sa.Integer, "failures"),
        *(sa.Column(name, sa.BigInteger) for name in ("failing_since_ns", "failed_ns", "arrived_ns")),
        *_zeros(sa.Integer, "warned", "bounces"),
        sa.Column("warned_ns", sa.BigInteger),
        *_zeros(sa.Integer, "took_ms"),
    )
    op.create_index("ix_lanes_due_ns", "lanes", ["due_ns"])
    op.execute("INSERT INTO lanes (subscription_id) SELECT id FROM subscriptions")


def _create_outbox() -> None:
    op.create_table(
        "outbox",
        sa.Column("id", _LONG, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_outbox"),
        *_of("outbox", "subscription_id", "subscriptions.id"),
        *_of("outbox", "alert_seq", "alerts.seq", _LONG, "SET NULL"),
        sa.Column("symbol", sa.Text, nullable=False),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("message_id", sa.Text),
        sa.Column("phase", sa.Text, nullable=False),
        sa.Column("tries", sa.Integer, nullable=False),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("due_ns", sa.BigInteger, nullable=False),
        sa.Column("created_ns", sa.BigInteger, nullable=False),
        sa.Column("asked_ns", sa.BigInteger, nullable=False),
        sa.Column("ended_ns", sa.BigInteger),
        sa.UniqueConstraint("alert_seq", "subscription_id", name="uq_outbox_alert_seq_subscription_id"),
        sqlite_autoincrement=True,
    )
    for columns in (["subscription_id", "symbol", "number"], ["subscription_id", "phase", "id", "due_ns"]):
        op.create_index(f"ix_outbox_{'_'.join(columns)}", "outbox", columns)
    known = sa.text("message_id IS NOT NULL")
    op.create_index(
        "ix_outbox_message_id", "outbox", ["message_id"], sqlite_where=known, postgresql_where=known
    )


def _of(
    table: str, column: str, whose: str, kind: Any = sa.Integer, then: str = "CASCADE"
) -> tuple[Any, ...]:
    """Return `column` with a foreign key to the column `whose`. `then`: what happens when the row there is deleted."""
    return (
        sa.Column(column, kind, nullable=then != "CASCADE"),
        sa.ForeignKeyConstraint([column], [whose], name=f"fk_{table}_{column}", ondelete=then),
    )


def _zeros(kind: Any, *names: str) -> list[sa.Column[Any]]:
    return [sa.Column(name, kind, nullable=False, server_default="0") for name in names]
