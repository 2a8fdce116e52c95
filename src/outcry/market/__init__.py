"""Market profile rules as pure functions: no files, clock, randomness or threads."""
