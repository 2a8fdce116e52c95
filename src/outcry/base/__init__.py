"""Small parts that every package uses and that know no market: clock, errors, backoff, encryption, translations."""
