"""All tables, for SQLite and PostgreSQL. Times are in ns UTC, prices in units of 10⁻⁹.

Session prices are inside the encoded profiles. Every change of this module needs a migration; a test compares the
result of all migrations with this module.
"""

from sqlalchemy import (
    BigInteger,
    Column,
    Date,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    Table,
    Text,
    UniqueConstraint,
)

from outcry.database import connection_schema, delivery_schema
from outcry.database.naming import metadata

subscriptions, attempts = delivery_schema.subscriptions, delivery_schema.attempts
lanes, outbox = delivery_schema.lanes, delivery_schema.outbox
connections, credentials = connection_schema.connections, connection_schema.credentials
vault_keys = connection_schema.vault_keys

#: One row with two counters that write transactions increment, so that other processes notice changes: `n` for changes
#: that can affect answers, `people` for sign-ins and personal settings.
revision = Table(
    "revision",
    metadata,
    Column("n", BigInteger, nullable=False),
    Column("people", BigInteger, nullable=False, server_default="0"),
)

#: `handle` has a default only for its migration; `totp_step`: the last one used;
#: `credentials_version`: see `UserRow`.
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
    Column("credentials_version", BigInteger, nullable=False, server_default="0"),
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

#: Browser sessions; the table `sessions` has market sessions.
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

#: `replaced_by`: the key that replaced this one.
#: `changed`: the revision of answers that last changed the rights of the key or its user.
keys = Table(
    "keys",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("user_id", ForeignKey("users.id"), nullable=False, index=True),
    Column("tier", Text, nullable=False),
    Column("prefix", Text, nullable=False, index=True),
    Column("digest", LargeBinary, nullable=False, unique=True),
    Column("created_ns", BigInteger, nullable=False),
    Column("revoked_ns", BigInteger),
    Column("role", Text, nullable=False, server_default="read"),
    Column("label", Text, nullable=False, server_default=""),
    Column("expires_ns", BigInteger),
    Column("last_used_ns", BigInteger),
    Column("replaced_by", Integer),
    Column("changed", BigInteger, nullable=False, server_default="0"),
    Index("ix_keys_changed_id", "changed", "id"),
)

#: Settings of profiles that users saved, deleted with their user. `setting` is JSON (`market.saved_setting`).
presets = Table(
    "presets",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("user_id", ForeignKey("users.id", ondelete="CASCADE"), nullable=False),
    Column("name", Text, nullable=False),
    Column("setting", Text, nullable=False),
    Column("created_ns", BigInteger, nullable=False),
    UniqueConstraint("user_id", "name"),
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
    Column("licence", Text, nullable=False, server_default=""),
)

#: Log of grants; rows are only added. `by`: an email address, or `command`; `attested`: the declaration made with it,
#: verbatim, empty where none was needed.
grant_log = Table(
    "grant_log",
    metadata,
    Column("id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True),
    Column("grant_id", ForeignKey("grants.id"), nullable=False),
    Column("at_ns", BigInteger, nullable=False),
    Column("event", Text, nullable=False),
    Column("by", Text, nullable=False),
    Column("attested", Text, nullable=False),
)

imports = Table(
    "imports",
    metadata,
    Column("owner", Integer, primary_key=True),
    Column("digest", Text, primary_key=True),
    Column("name", Text, nullable=False),
    Column("at_ns", BigInteger, nullable=False),
    Column("sha256", Text, nullable=False, server_default=""),
    Column("bytes", BigInteger),
    Column("rows", BigInteger),
    Column("read_as", Text),
)

_CONTRIBUTION_COUNTS = ("rows", "volume", "first_ns", "last_ns")
_COUNTS = ("rows", "volume", "off_tick", "out_of_order", "first_ns", "last_ns", "received_ns")

#: `digest`: the SHA-256 of the tape file, empty until verified; `checksum`: see `database.checksums`.
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
    Column("digest", Text, nullable=False, server_default=""),
    Column("from_feed", Integer, nullable=False, server_default="0"),
    Column("checksum", LargeBinary),
)

#: The recordings that each import contributed to, and the tape file with the rows that it contributed. `digest` is
#: empty for the rows of live feeds and of imports by earlier versions. See `sessions.store_model.Contribution`.
import_recordings = Table(
    "import_recordings",
    metadata,
    Column("owner", Integer, primary_key=True),
    Column("digest", Text, primary_key=True),
    Column("contract", Text, primary_key=True),
    Column("trade_date", Date, primary_key=True),
    Column("source", Text, primary_key=True),
    Column("quality", Text, primary_key=True),
    Column("position", Integer, nullable=False, server_default="0"),
    Column("path", Text),
    Column("file_digest", Text, nullable=False, server_default=""),
    *(
        Column(name, BigInteger, nullable=False, server_default="0")
        for name in ("rows", "volume", "first_ns", "last_ns")
    ),
    Column("spans", Text, nullable=False, server_default="[]"),
    Column("from_feed", Integer, nullable=False, server_default="0"),
    Column("set_aside", Text, nullable=False, server_default="[]"),
    Index("ix_import_recordings_path", "path"),
    Index("ix_import_recordings_owner_contract_trade_date", "owner", "contract", "trade_date"),
)

#: `segments`: trading windows of the session's hours, not part of the checksum; empty if stored by an earlier version.
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
    Column("holes", Text, nullable=False, server_default="[]"),
    Column("activity", Text, nullable=False, server_default="[]"),
    Column("checksum", LargeBinary),
    Column("segments", Text, nullable=False, server_default="[]"),
    Index("ix_sessions_owner_root", "owner", "root"),
)

#: Tick and size step of each product when this database was last opened. Stored prices and sizes count in them.
product_units = Table(
    "product_units",
    metadata,
    Column("root", Text, primary_key=True),
    Column("tick_e9", BigInteger, nullable=False),
    Column("size_step_e9", BigInteger, nullable=False),
)

#: `seq` is the commit order and never reused, so readers continue after the last one they read. `written_ns`: when it
#: was recorded by the machine's clock, which the outbox uses; `recorded_ns`: by the clock of its feed.
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
    Column("checksum", LargeBinary),
    UniqueConstraint("owner", "feed", "key"),
    Index("ix_alerts_owner_seq", "owner", "seq"),
    Index("ix_alerts_owner_symbol_trade_date", "owner", "symbol", "trade_date"),
    sqlite_autoincrement=True,
)

#: The position up to which each stream's alerts are recorded. `stream`: owner, feed and contract, `0/demo/ESZ2026`.
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
