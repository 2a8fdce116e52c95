"""Completed sessions and what they carry forward."""
