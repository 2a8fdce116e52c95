"""What all tables are part of, and how their constraints are named.

Rule kept: every constraint has a name that follows from what it is, so that a migration can speak of it.
"""

from sqlalchemy import MetaData

metadata = MetaData(
    naming_convention={"pk": "pk_%(table_name)s", "uq": "uq_%(table_name)s_%(column_0_N_name)s",
                       "fk": "fk_%(table_name)s_%(column_0_name)s", "ix": "ix_%(table_name)s_%(column_0_N_name)s"}
)  # fmt: skip
