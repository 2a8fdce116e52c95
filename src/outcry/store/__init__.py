"""What is kept on disk: the database, the tape, the reference tables."""
