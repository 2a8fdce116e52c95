"""Account rules that need nothing but their arguments: the form of a key, what a tier allows, what a licence
shows."""
