"""Completed sessions, and what they carry forward to later sessions: prior levels, naked POCs and poor extremes."""
