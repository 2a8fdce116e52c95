"""Completed sessions, and what later sessions take from them: prior levels, naked POCs and poor extremes."""
