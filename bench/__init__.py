"""Ratios to other tools and to physical limits, measured in one run on one machine: `python -m bench`.

`bench.__main__` names the benches. Each yields figures, first those of the table of goals.
docs/contribute/benchmarks.md states what each measures and why.
"""
