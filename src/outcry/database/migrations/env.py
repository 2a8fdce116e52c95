"""Alembic environment: run all pending migrations in one transaction, on the connection that `migrate` passes."""

from alembic import context

from outcry.database.schema import metadata

connection = context.config.attributes["connection"]
context.configure(connection=connection, target_metadata=metadata, transaction_per_migration=False)
with context.begin_transaction():
    context.run_migrations()
