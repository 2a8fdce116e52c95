"""The page of one symbol."""
