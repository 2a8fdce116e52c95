"""Protocols and frozen records: what the services need of the world, named by role."""
