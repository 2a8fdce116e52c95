"""The tables, once, for SQLite and PostgreSQL. Times are ns UTC, prices 10⁻⁹; those of sessions are in profiles.

Rule kept: every change to this module comes with a migration; a test compares the two.
"""

from sqlalchemy import (
    BigInteger,
    Column,
    Date,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
    text,
)

metadata = MetaData(
    naming_convention={"pk": "pk_%(table_name)s", "uq": "uq_%(table_name)s_%(column_0_N_name)s",
                       "fk": "fk_%(table_name)s_%(column_0_name)s", "ix": "ix_%(table_name)s_%(column_0_N_name)s"}
)  # fmt: skip

#: One row that every write transaction moves on, so that other processes see that something changed: `n` where an
#: answer may be another from now on, `people` where only who is signed in, or what people keep for themselves, changed.
revision = Table(
    "revision",
    metadata,
    Column("n", BigInteger, nullable=False),
    Column("people", BigInteger, nullable=False, server_default="0"),
)

#: `handle` has a default for the moment only in which a migration adds it; `totp_step`: the last one used.
users = Table(
    "users",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("email", Text, nullable=False, unique=True),
    Column("created_ns", BigInteger, nullable=False),
    Column("role", Text, nullable=False, server_default="member"),
    Column("tier", Text, nullable=False, server_default="free"),
    Column("disabled_ns", BigInteger),
    Column("password_hash", Text),
    Column("totp_sealed", LargeBinary),
    Column("totp_step", BigInteger),
    Column("handle", LargeBinary, nullable=False, server_default=""),
    Column("language", Text, nullable=False, server_default=""),
    Column("time_zone", Text, nullable=False, server_default="America/New_York"),
    Column("theme", Text, nullable=False, server_default="auto"),
    Column("digest_hour", Integer, nullable=False, server_default="17"),
    Column("shortcuts", Integer, nullable=False, server_default="1"),
    Column("openid", Text),
    Index("uq_users_handle", "handle", unique=True),
    Index("uq_users_openid", "openid", unique=True),
)

passkeys = Table(
    "passkeys",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("user_id", ForeignKey("users.id"), nullable=False, index=True),
    Column("credential_id", LargeBinary, nullable=False, unique=True),
    Column("public_key", LargeBinary, nullable=False),
    Column("sign_count", BigInteger, nullable=False),
    Column("transports", Text, nullable=False),
    Column("label", Text, nullable=False),
    Column("created_ns", BigInteger, nullable=False),
    Column("last_used_ns", BigInteger),
)

recovery_codes = Table(
    "recovery_codes",
    metadata,
    Column("user_id", ForeignKey("users.id"), primary_key=True),
    Column("digest", LargeBinary, primary_key=True),
    Column("used_ns", BigInteger),
)

#: Browsers signed in; `sessions` are the market's.
browser_sessions = Table(
    "browser_sessions",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("user_id", ForeignKey("users.id"), nullable=False, index=True),
    Column("digest", LargeBinary, nullable=False, unique=True),
    Column("created_ns", BigInteger, nullable=False),
    Column("seen_ns", BigInteger, nullable=False),
    Column("confirmed_ns", BigInteger, nullable=False),
    Column("address", Text, nullable=False),
    Column("agent", Text, nullable=False),
    Column("ended_ns", BigInteger),
)

#: One-time tokens. `details` is JSON, as in `audit`.
tokens = Table(
    "tokens",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("purpose", Text, nullable=False),
    Column("digest", LargeBinary, nullable=False, unique=True),
    Column("user_id", ForeignKey("users.id")),
    Column("email", Text, nullable=False),
    Column("details", Text, nullable=False),
    Column("browser", LargeBinary),
    Column("created_ns", BigInteger, nullable=False),
    Column("expires_ns", BigInteger, nullable=False),
    Column("spent_ns", BigInteger),
)

audit = Table(
    "audit",
    metadata,
    Column("id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True),
    Column("user_id", ForeignKey("users.id"), nullable=False),
    Column("at_ns", BigInteger, nullable=False),
    Column("event", Text, nullable=False),
    Column("details", Text, nullable=False),
    Column("address", Text, nullable=False),
    Column("agent", Text, nullable=False),
    Index("ix_audit_user_id_id", "user_id", "id"),
)

#: No number is used twice: what is on its way to a subscription that was removed must not reach the next one.
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

#: Attempts at delivering; they go with their subscription. `phases`: what took how long, `dns=3 connect=12`.
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

#: `replaced_by`: the key that was made in this one's place.
keys = Table(
    "keys",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("user_id", ForeignKey("users.id"), nullable=False),
    Column("tier", Text, nullable=False),
    Column("prefix", Text, nullable=False),
    Column("digest", LargeBinary, nullable=False, unique=True),
    Column("created_ns", BigInteger, nullable=False),
    Column("revoked_ns", BigInteger),
    Column("role", Text, nullable=False, server_default="read"),
    Column("label", Text, nullable=False, server_default=""),
    Column("expires_ns", BigInteger),
    Column("last_used_ns", BigInteger),
    Column("replaced_by", Integer),
)

grants = Table(
    "grants",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("grantee", Text, nullable=False),
    Column("scope", Text, nullable=False),
    Column("roots", Text, nullable=False),
    Column("from_date", Date),
    Column("until_date", Date),
    Column("embargo_ns", BigInteger, nullable=False),
    Column("created_ns", BigInteger, nullable=False),
    Column("revoked_ns", BigInteger),
)

imports = Table(
    "imports",
    metadata,
    Column("owner", Integer, primary_key=True),
    Column("digest", Text, primary_key=True),
    Column("name", Text, nullable=False),
    Column("at_ns", BigInteger, nullable=False),
)

_COUNTS = ("rows", "volume", "off_tick", "out_of_order", "first_ns", "last_ns", "received_ns")

recordings = Table(
    "recordings",
    metadata,
    Column("owner", Integer, primary_key=True),
    Column("contract", Text, primary_key=True),
    Column("trade_date", Date, primary_key=True),
    Column("source", Text, primary_key=True),
    Column("quality", Text, primary_key=True),
    Column("path", Text, nullable=False, unique=True),
    *(Column(name, BigInteger, nullable=False) for name in _COUNTS),
    Column("spans", Text, nullable=False),
)

sessions = Table(
    "sessions",
    metadata,
    Column("owner", Integer, primary_key=True),
    Column("contract", Text, primary_key=True),
    Column("trade_date", Date, primary_key=True),
    Column("kind", Text, primary_key=True),
    Column("root", Text, nullable=False),
    Column("open_ns", BigInteger, nullable=False),
    Column("close_ns", BigInteger, nullable=False),
    Column("source", Text, nullable=False),
    Column("quality", Text, nullable=False),
    Column("complete", Integer, nullable=False),
    Column("short", Integer, nullable=False),
    *(Column(name, BigInteger, nullable=False) for name in _COUNTS),
    Column("profile", LargeBinary, nullable=False),
    Index("ix_sessions_owner_root", "owner", "root"),
)

#: `seq` is the order of commit and never used twice, whatever is deleted: readers go on after the last they saw.
#: `written_ns`: when it was recorded by the machine's clock, which the outbox goes by; `recorded_ns` is by its feed's.
alerts = Table(
    "alerts",
    metadata,
    Column("seq", BigInteger().with_variant(Integer, "sqlite"), primary_key=True),
    Column("owner", Integer, nullable=False),
    Column("feed", Text, nullable=False),
    Column("contract", Text, nullable=False),
    Column("symbol", Text, nullable=False),
    Column("type", Text, nullable=False),
    Column("severity", Text, nullable=False),
    Column("session", Text, nullable=False),
    Column("trade_date", Date, nullable=False),
    Column("key", Text, nullable=False),
    Column("at_ns", BigInteger, nullable=False),
    Column("price_e9", BigInteger, nullable=False),
    Column("ref", Text, nullable=False),
    Column("params", Text, nullable=False),
    Column("invented", Integer, nullable=False),
    Column("recorded_ns", BigInteger),
    Column("written_ns", BigInteger),
    UniqueConstraint("owner", "feed", "key"),
    Index("ix_alerts_owner_seq", "owner", "seq"),
    Index("ix_alerts_owner_symbol_trade_date", "owner", "symbol", "trade_date"),
    sqlite_autoincrement=True,
)

#: How delivering to each subscription stands, a row made with it. `worker` holds it until `leased_until_ns`, empty for
#: nobody. `due_ns`: when it is to be looked at, NULL where nothing waits: never later than something is due, so that
#: who claims need not look at what waits behind lanes that are closed.
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
    Index("ix_lanes_due_ns", "due_ns"),
)

#: Each alert on its way to each subscription it is for. `message_id`: of the message it goes in, once it is in one.
outbox = Table(
    "outbox",
    metadata,
    Column("id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True),
    Column("subscription_id", ForeignKey("subscriptions.id", ondelete="CASCADE"), nullable=False),
    Column("alert_seq", ForeignKey("alerts.seq", ondelete="CASCADE"), nullable=False),
    Column("symbol", Text, nullable=False),
    Column("number", Integer, nullable=False),
    Column("message_id", Text),
    Column("phase", Text, nullable=False),
    Column("tries", Integer, nullable=False),
    Column("due_ns", BigInteger, nullable=False),
    Column("created_ns", BigInteger, nullable=False),
    Column("ended_ns", BigInteger),
    UniqueConstraint("alert_seq", "subscription_id"),
    Index("ix_outbox_subscription_id_symbol_number", "subscription_id", "symbol", "number"),
    # In the order they were written, of one phase: what waits, was missed or is held. With `due_ns`, so that the table
    # itself is not read to find out when.
    Index("ix_outbox_subscription_id_phase_id_due_ns", "subscription_id", "phase", "id", "due_ns"),
    Index(
        "ix_outbox_message_id",
        "message_id",
        sqlite_where=text("message_id IS NOT NULL"),
        postgresql_where=text("message_id IS NOT NULL"),
    ),
    sqlite_autoincrement=True,
)

#: Up to where each stream's alerts are recorded. `stream`: owner, feed and contract, `0/demo/ESZ2026`.
positions = Table(
    "positions",
    metadata,
    Column("stream", Text, primary_key=True),
    Column("position", BigInteger, nullable=False),
)

snapshots = Table(
    "snapshots",
    metadata,
    Column("stream", Text, primary_key=True),
    Column("position", BigInteger, nullable=False),
    Column("data", LargeBinary, nullable=False),
)
