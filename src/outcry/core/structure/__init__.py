"""Alerts: one file a family, each a table-driven state machine over one session (rules §6)."""
