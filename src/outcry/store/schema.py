"""The tables, once, for SQLite and PostgreSQL. Times are ns UTC, prices never stand here: they are in profiles.

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
