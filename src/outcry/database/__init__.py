"""The schema, its migrations and the connection to SQLite or PostgreSQL."""
