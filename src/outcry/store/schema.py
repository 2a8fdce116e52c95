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
)

metadata = MetaData(
    naming_convention={"pk": "pk_%(table_name)s", "uq": "uq_%(table_name)s_%(column_0_N_name)s",
                       "fk": "fk_%(table_name)s_%(column_0_name)s"}
)  # fmt: skip

#: One row that every write transaction moves on, so that other processes see that something changed.
revision = Table("revision", metadata, Column("n", BigInteger, nullable=False))

users = Table(
    "users",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("email", Text, nullable=False, unique=True),
    Column("created_ns", BigInteger, nullable=False),
)

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
    UniqueConstraint("owner", "feed", "key"),
    Index("ix_alerts_owner_seq", "owner", "seq"),
    Index("ix_alerts_owner_symbol_trade_date", "owner", "symbol", "trade_date"),
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
