"""Builders of every answer, from live and completed sessions."""
