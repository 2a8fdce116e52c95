"""Shared basics without domain knowledge."""
