"""Recordings in files: DBN, Sierra Chart, LEAN, Parquet and text tables, behind `file_library.FileLibrary`."""
