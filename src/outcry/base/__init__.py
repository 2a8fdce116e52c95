"""Small modules without market knowledge that every package uses: clock, errors, backoff, encryption, translations."""
