"""The database: its schema, migrations, and connections to SQLite or PostgreSQL."""
