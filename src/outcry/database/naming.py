"""SQLAlchemy metadata of all tables, naming rules for their constraints, and partial indexes.

Every constraint has a name derived from its columns, so that migrations can refer to it.
"""

from typing import Any

from sqlalchemy import MetaData
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.schema import CreateIndex

#: Key of `Index.info` for the condition of a partial index, in SQL of both databases. SQLAlchemy's own parameters
#: `sqlite_where` and `postgresql_where` would load the dialects of both databases whenever the schema is imported.
PARTIAL = "partial"

metadata = MetaData(
    naming_convention={"pk": "pk_%(table_name)s", "uq": "uq_%(table_name)s_%(column_0_N_name)s",
                       "fk": "fk_%(table_name)s_%(column_0_name)s", "ix": "ix_%(table_name)s_%(column_0_N_name)s"}
)  # fmt: skip


@compiles(CreateIndex)
def _create_index(create: Any, compiler: Any, **options: Any) -> str:
    statement: str = compiler.visit_create_index(create, **options)
    condition = create.element.info.get(PARTIAL)
    return f"{statement} WHERE {condition}" if condition else statement
