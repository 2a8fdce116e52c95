"""Recordings in files: DBN, Sierra Chart, LEAN, Parquet and tables of text, behind `library.FileLibrary`."""
