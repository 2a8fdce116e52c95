"""File formats, import, and the tape of what was recorded."""
