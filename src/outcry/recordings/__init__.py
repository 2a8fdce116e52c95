"""Recordings: file formats, import, and the tape that stores their trades and bars."""
