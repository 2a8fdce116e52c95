"""Sizes and volumes as numbers for a reader. Inside, they are integers of the product's smallest size (its step)."""

_WHOLE_E9 = 1_000_000_000

#: A size or volume: whole unless the product's smallest size is a fraction.
Size = int | float


def size(steps: int, step_e9: int) -> Size:
    """Return a size in whole steps (of `step_e9`, in 10⁻⁹) as a number: an int if the step is whole, else a float.

    The float is the double nearest to the size, which prints as the size itself: 1234 steps of 0.001 give 1.234.
    """
    if step_e9 == _WHOLE_E9:
        return steps
    whole, rest = divmod(step_e9, _WHOLE_E9)
    return steps * step_e9 / _WHOLE_E9 if rest else steps * whole
