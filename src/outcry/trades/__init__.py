"""Trades on their way to a session: feed events, rows, validation, removal of duplicates."""
