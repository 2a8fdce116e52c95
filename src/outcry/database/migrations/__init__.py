"""Alembic migrations of the database schema; `outcry.database.migrate` applies them."""
