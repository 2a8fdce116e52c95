"""Readers of recording files: DBN, Sierra Chart, LEAN, Parquet and text tables.

`file_library.FileLibrary` selects one.
"""
