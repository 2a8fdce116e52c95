"""The whole of Outcry as an operator runs it, on many processes and real engines, while these are killed, stopped and
stalled by chance; in the end all of it is compared with one undisturbed process. `python -m sim --help`."""
