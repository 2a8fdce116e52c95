"""Finds the settings of a profile that reproduce the levels of another platform."""
