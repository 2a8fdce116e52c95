"""Tables for the delivery of alerts: subscriptions, unsent alerts (outbox) and delivery attempts. Part of `schema`.

When a subscription is deleted, its rows in the other tables are deleted too.
"""

from sqlalchemy import (
    BigInteger,
    Column,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    Table,
    Text,
    UniqueConstraint,
)

from outcry.database.naming import PARTIAL, metadata

#: Ids are never reused: pending messages of a removed subscription must not reach a new one.
subscriptions = Table(
    "subscriptions",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("user_id", ForeignKey("users.id"), nullable=False, index=True),
    Column("target", Text, nullable=False),
    Column("label", Text, nullable=False),
    Column("sealed_address", LargeBinary, nullable=False),
    Column("shown", Text, nullable=False),
    Column("symbols", Text, nullable=False),
    Column("min_severity", Text, nullable=False),
    Column("phase", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("sealed_secret", LargeBinary),
    Column("secret_last4", Text, nullable=False),
    Column("sealed_old_secret", LargeBinary),
    Column("old_until_ns", BigInteger),
    Column("created_ns", BigInteger, nullable=False),
    Column("ordered", Integer, nullable=False, server_default="0"),
    Column("window", Text, nullable=False, server_default="hour"),
    Column("at_once", Integer, nullable=False, server_default="1"),
    sqlite_autoincrement=True,
)

#: Delivery attempts. `phases`: duration of each phase in ms, such as `dns=3 connect=12`.
attempts = Table(
    "attempts",
    metadata,
    Column("id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True),
    Column("subscription_id", ForeignKey("subscriptions.id", ondelete="CASCADE"), nullable=False),
    Column("at_ns", BigInteger, nullable=False),
    Column("alert_key", Text, nullable=False),
    Column("alert_type", Text, nullable=False),
    Column("symbol", Text, nullable=False),
    Column("outcome", Text, nullable=False),
    Column("code", Text, nullable=False),
    Column("status", Integer),
    Column("took_ms", BigInteger),
    Column("excerpt", Text, nullable=False),
    Column("next_ns", BigInteger),
    Column("message_id", Text, nullable=False, server_default=""),
    Column("alerts", Integer, nullable=False, server_default="1"),
    Column("number", Integer, nullable=False, server_default="1"),
    Column("phases", Text, nullable=False, server_default=""),
    Column("shown", Text, nullable=False, server_default=""),
    Index("ix_attempts_subscription_id_id", "subscription_id", "id"),
    Index("ix_attempts_at_ns", "at_ns"),
    sqlite_autoincrement=True,
)

#: The delivery queue of each subscription. `worker`: the claim that leases it until `leased_until_ns`, a new name each
#: time, empty if unclaimed. `due_ns`: when to claim it next, NULL if nothing is pending. It is never later than the
#: first due message, so that claiming need not read the messages of paused queues.
lanes = Table(
    "lanes",
    metadata,
    Column(
        "subscription_id",
        ForeignKey("subscriptions.id", ondelete="CASCADE"),
        primary_key=True,
        autoincrement=False,
    ),
    Column("worker", Text, nullable=False, server_default=""),
    Column("leased_until_ns", BigInteger, nullable=False, server_default="0"),
    Column("due_ns", BigInteger),
    Column("sent_ns", BigInteger, nullable=False, server_default="0"),
    Column("closed_until_ns", BigInteger, nullable=False, server_default="0"),
    Column("failures", Integer, nullable=False, server_default="0"),
    Column("failing_since_ns", BigInteger),
    Column("failed_ns", BigInteger),
    Column("arrived_ns", BigInteger),
    Column("warned", Integer, nullable=False, server_default="0"),
    Column("bounces", Integer, nullable=False, server_default="0"),
    Column("warned_ns", BigInteger),
    Column("took_ms", Integer, nullable=False, server_default="0"),
    Index("ix_lanes_due_ns", "due_ns"),
)

#: Each alert for each subscription. The alert is NULL once it was deleted; the row remains, because numbering continues
#: from it. `message_id`: the message that contains it, if any. `tries`: steps of the retry schedule used; `attempts`:
#: number of attempts; `asked_ns`: when delivery was requested, first or again.
outbox = Table(
    "outbox",
    metadata,
    Column("id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True),
    Column("subscription_id", ForeignKey("subscriptions.id", ondelete="CASCADE"), nullable=False),
    Column("alert_seq", ForeignKey("alerts.seq", ondelete="SET NULL")),
    Column("symbol", Text, nullable=False),
    Column("number", Integer, nullable=False),
    Column("message_id", Text),
    Column("phase", Text, nullable=False),
    Column("tries", Integer, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("due_ns", BigInteger, nullable=False),
    Column("created_ns", BigInteger, nullable=False),
    Column("asked_ns", BigInteger, nullable=False),
    Column("ended_ns", BigInteger),
    UniqueConstraint("alert_seq", "subscription_id"),
    Index("ix_outbox_subscription_id_symbol_number", "subscription_id", "symbol", "number"),
    # Rows of one phase in order of insertion. Includes `due_ns`, so that the table itself need not be read.
    Index("ix_outbox_subscription_id_phase_id_due_ns", "subscription_id", "phase", "id", "due_ns"),
    Index("ix_outbox_message_id", "message_id", info={PARTIAL: "message_id IS NOT NULL"}),
    sqlite_autoincrement=True,
)
