"""Recordings: file formats, import, and the tape, that is, the files in which imported trades and bars are stored."""
