"""Recordings as vendors ship them, made from a random walk, and levels computed from the written rules alone."""
