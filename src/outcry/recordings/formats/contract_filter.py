"""Apply the option `--contract` to a file.

If a file names its contracts, the option selects one of them. Otherwise it names the only contract. It never overrides
the file's content.
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
    """The contract named by the user, if any, and the contracts found in the file."""

    path: Path
    names: ContractNames
    text: str | None
    _seen: set[Contract] = field(default_factory=set[Contract])
    _given: Contract | None = None

    def given(self, near: date) -> Contract | None:
        """Return the contract of the option `--contract`. `near`: a date of the data, which decides its year."""
        if self.text is not None and self._given is None:
            contract = self.names.contract(self.text, near)
            if not isinstance(contract, Contract):
                raise FileRefused(self.path, "--contract", f"unknown contract {self.text[:40]!r}",
                                  "use a symbol such as ESZ3 or ESZ2013")  # fmt: skip
            self._given = contract
        return self._given

    def admits(self, contract: Contract, near: date, rows: int, counts: ReadCounts) -> bool:
        """Return whether rows of a contract are to be imported; if not, count them as skipped."""
        given = self.given(near)
        if given is None or given == contract:
            self._seen.add(contract)
            return True
        if len(self._seen) < 100:
            self._seen.add(contract)
        counts.skip(OTHER_CONTRACT, rows)
        return False

    def finish(self, rows: int) -> None:
        """Refuse a file that contains only other contracts than the selected one."""
        if self._given is not None and not rows and self._seen:
            held = ", ".join(sorted(c.key for c in self._seen)[:5])
            raise FileRefused(self.path, "", f"the file has {held}, not {self._given.key}",
                              "correct or omit --contract")  # fmt: skip

    def named_by_file(self, near: date) -> Contract:
        """Return the contract of a file whose rows name none: by the file's name or the option `--contract`.

        The file is refused if neither names a contract, or if they disagree.
        """
        by_name, given = self.names.in_file_name(self.path, near), self.given(near)
        if by_name is not None and given is not None and by_name != given:
            raise FileRefused(self.path, "", f"the file name says {by_name.key}, but --contract is {given.key}",
                              "correct one of the two")  # fmt: skip
        contract = given or by_name
        if contract is None:
            raise FileRefused(self.path, "", "cannot tell which contract this is",
                              "add --contract, for example --contract ESZ3")  # fmt: skip
        return contract
