"""Alembic migrations; `store.migrate` applies them."""
