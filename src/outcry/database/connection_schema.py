"""Tables of broker connections and their encrypted credentials. Part of `schema`.

To decrypt the credentials one needs a key that the database does not contain.
"""

from sqlalchemy import BigInteger, Column, ForeignKey, Integer, LargeBinary, Table, Text, UniqueConstraint

from outcry.database.naming import metadata

#: Ids are never reused, because credentials are bound to them. `roots`: the products it provides, separated by blanks.
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

#: Key-encryption keys by name. A retired key encrypts nothing new.
vault_keys = Table(
    "vault_keys",
    metadata,
    Column("kid", Text, primary_key=True),
    Column("canary", LargeBinary, nullable=False),
    Column("made_ns", BigInteger, nullable=False),
    Column("retired_ns", BigInteger),
)

#: The current credentials of each connection. `wrapped`: their key, encrypted with the key `kid`.
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
