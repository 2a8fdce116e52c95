"""What every part uses and no market knows: clock, errors, backoff, encryption, translations."""
