"""Reaching people outside: mail."""
