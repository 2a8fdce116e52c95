"""Build the objects of a process from the settings, by plain functions."""
