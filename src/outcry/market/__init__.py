"""Rules of the auction as pure functions: no file, clock, chance or thread."""
