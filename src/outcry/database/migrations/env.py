"""How Alembic runs our migrations: on the connection `store.migrate` hands it, all in one transaction."""

from alembic import context

from outcry.database.schema import metadata

connection = context.config.attributes["connection"]
context.configure(connection=connection, target_metadata=metadata, transaction_per_migration=False)
with context.begin_transaction():
    context.run_migrations()
