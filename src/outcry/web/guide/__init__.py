"""Guides and reference."""
