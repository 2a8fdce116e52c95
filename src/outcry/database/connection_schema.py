"""The tables of connections: which there are, their sealed entries, and what is known of the keys those are under. Part
of `schema`.

Rule kept: nothing here opens without a key that is not in the database.
"""

from sqlalchemy import BigInteger, Column, ForeignKey, Integer, LargeBinary, Table, Text, UniqueConstraint

from outcry.database.naming import metadata

#: No number is used twice: entries are bound to it. `roots`: the products it brings, apart by blanks.
connections = Table(
    "connections",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("user_id", ForeignKey("users.id"), nullable=False),
    Column("broker", Text, nullable=False),
    Column("label", Text, nullable=False),
    Column("phase", Text, nullable=False),
    Column("code", Text, nullable=False),
    Column("since_ns", BigInteger, nullable=False),
    Column("roots", Text, nullable=False),
    Column("hint", Text, nullable=False),
    Column("created_ns", BigInteger, nullable=False),
    UniqueConstraint("user_id", "broker"),
    sqlite_autoincrement=True,
)

#: Key-encryption keys by name; one that was retired takes nothing new.
vault_keys = Table(
    "vault_keys",
    metadata,
    Column("kid", Text, primary_key=True),
    Column("canary", LargeBinary, nullable=False),
    Column("made_ns", BigInteger, nullable=False),
    Column("retired_ns", BigInteger),
)

#: The newest entries of each connection. `wrapped`: the key they are sealed under, itself under the key `kid`.
credentials = Table(
    "credentials",
    metadata,
    Column(
        "connection_id",
        ForeignKey("connections.id", ondelete="CASCADE"),
        primary_key=True,
        autoincrement=False,
    ),
    Column("version", Integer, nullable=False),
    Column("kid", ForeignKey("vault_keys.kid"), nullable=False, index=True),
    Column("wrapped", LargeBinary, nullable=False),
    Column("sealed", LargeBinary, nullable=False),
)
