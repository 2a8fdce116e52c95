"""The object graph, built by plain functions from the settings."""
