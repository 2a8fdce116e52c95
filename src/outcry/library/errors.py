"""The error that the library raises for data or arguments that it cannot use."""


class InvalidInput(ValueError):
    """Data or arguments of `outcry.profile` are invalid. The message states the problem, the value and a remedy.

    row: the first invalid row of the data, counted from 0 in the user's order; None if the problem is not in a row.
    problem, remedy: the two parts of the message.
    """

    def __init__(self, problem: str, remedy: str = "", *, row: int | None = None) -> None:
        place, counted = ("", "") if row is None else (f"Row {row}: ", "Rows count from 0.")
        super().__init__(" ".join(part for part in (f"{place}{problem}.", remedy, counted) if part))
        self.row, self.problem, self.remedy = row, problem, remedy
