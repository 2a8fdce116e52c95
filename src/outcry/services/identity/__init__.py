"""People: how they come in, prove who they are, and what was done in their name."""
