"""Recordings of market data: the file formats, the import, and the tape.

The tape is the folder of files in which imported trades and bars are stored.
"""
