"""Simulation of a whole cluster: run `python -m sim --help`.

It runs Outcry as an operator does, with many processes and real engines, and kills, stops and stalls them at random. At
the end it compares all results with those of one undisturbed process.
"""
