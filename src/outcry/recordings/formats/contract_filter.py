"""Apply the option `--contract` to a file.

If a file names its contracts, the option selects one of them. If it names none, the option states the only contract.
The option never overrides what the file says.
"""

from dataclasses import dataclass, field
from datetime import date
from pathlib import Path

from outcry.market.instruments import Contract
from outcry.recordings.file_model import FileRefused, ReadCounts
from outcry.recordings.formats.contract_names import ContractNames

OTHER_CONTRACT = "rows of other contracts than --contract"


@dataclass(slots=True)
class ContractFilter:
    """The contract that the user named with `--contract`, if any, and the contracts found in the file.

    `unnamed`: the contract of rows that neither the file nor the user names; None if such a file is refused.
    """

    path: Path
    names: ContractNames
    text: str | None
    unnamed: Contract | None = None
    _seen: set[Contract] = field(default_factory=set[Contract])
    _given: Contract | None = None

    def given(self, near: date) -> Contract | None:
        """Return the contract that `--contract` names.

        `near`: a date in the data, which decides the decade of a one-digit year.
        """
        if self.text is not None and self._given is None:
            contract = self.names.contract(self.text, near)
            if not isinstance(contract, Contract):
                raise FileRefused(self.path, "--contract", f"unknown contract {self.text[:40]!r}",
                                  "use a symbol such as ESZ3 or ESZ2013")  # fmt: skip
            self._given = contract
        return self._given

    def admits(self, contract: Contract, near: date, rows: int, counts: ReadCounts) -> bool:
        """Return whether to import rows of a contract; if not, count these rows as skipped."""
        given = self.given(near)
        if given is None or given == contract:
            self._seen.add(contract)
            return True
        if len(self._seen) < 100:
            self._seen.add(contract)
        counts.skip(OTHER_CONTRACT, rows)
        return False

    def finish(self, rows: int) -> None:
        """Refuse a file that contains contracts, but not the one the user named. rows: rows accepted from it."""
        if self._given is not None and not rows and self._seen:
            held = ", ".join(sorted(c.key for c in self._seen)[:5])
            raise FileRefused(self.path, "", f"the file has {held}, not {self._given.key}",
                              "correct or omit --contract")  # fmt: skip

    def named_by_file(self, near: date) -> Contract:
        """Return the contract of a file whose rows name none, from the file's name or the option `--contract`.

        The file is refused if neither names a contract, or if they disagree.
        """
        by_name, given = self.names.in_file_name(self.path, near), self.given(near)
        if by_name is not None and given is not None and by_name != given:
            raise FileRefused(self.path, "", f"the file name says {by_name.key}, but --contract is {given.key}",
                              "correct one of the two")  # fmt: skip
        contract = given or by_name or self.unnamed
        if contract is None:
            raise FileRefused(self.path, "", "cannot tell which contract this is",
                              "add --contract, for example --contract ESZ3")  # fmt: skip
        return contract
