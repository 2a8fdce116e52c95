"""Metadata of all tables, and names of their constraints.

Every constraint has a name derived from its columns, so that migrations can refer to it.
"""

from sqlalchemy import MetaData

metadata = MetaData(
    naming_convention={"pk": "pk_%(table_name)s", "uq": "uq_%(table_name)s_%(column_0_N_name)s",
                       "fk": "fk_%(table_name)s_%(column_0_name)s", "ix": "ix_%(table_name)s_%(column_0_N_name)s"}
)  # fmt: skip
