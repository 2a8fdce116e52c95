"""Ratios against other tools and physical limits, measured in one run on one machine: `python -m bench`.

Each module is one bench with `run(size) -> Iterator[Figure]`. docs/benchmarks.md states what each measures and why.
"""
