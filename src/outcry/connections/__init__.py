"""Broker connections of users, and the vault of their credentials."""
