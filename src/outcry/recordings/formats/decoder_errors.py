"""Translate the errors of decoder libraries to `FileRefused`.

Whatever a file contains, reading it ends with rows or with a `FileRefused` that names the file and the place. The
decoder's error is the `__cause__` of the `FileRefused`.
"""

import struct
import sys
import zipfile
import zlib
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import databento_dbn
import zstandard

from outcry.recordings.file_model import FileRefused

#: All exceptions that the decoders raise for malformed input, except those of pyarrow. zipfile raises RuntimeError for
#: encrypted members and NotImplementedError for unknown methods. DBNError derives from Exception only.
DECODER_ERRORS: tuple[type[Exception], ...] = (
    ArithmeticError,
    EOFError,
    LookupError,
    MemoryError,
    NotImplementedError,
    OSError,
    RuntimeError,
    ValueError,
    databento_dbn.DBNError,
    struct.error,
    zipfile.BadZipFile,
    zlib.error,
    zstandard.ZstdError,
)


@contextmanager
def refuse_decoder_errors(path: Path, place: Callable[[], str] | str = "") -> Generator[None]:
    """Translate a decoder's error in the `with` block to `FileRefused`.

    A callable `place` is evaluated at the error.
    """
    try:
        yield
    except FileRefused:
        raise
    except PermissionError as fault:
        raise FileRefused(path, "", "permission denied", "change the permissions of the file") from fault
    except (*DECODER_ERRORS, *_arrow_errors()) as fault:
        where = place if isinstance(place, str) else place()
        raise FileRefused(path, where, f"cannot decode the file: {_brief(fault)}",
                          "the file is damaged or cut short; download it again") from fault  # fmt: skip


def _arrow_errors() -> tuple[type[Exception], ...]:
    """Return the base class of pyarrow's errors, if a reader has imported pyarrow; most files need none."""
    return (sys.modules["pyarrow"].ArrowException,) if "pyarrow" in sys.modules else ()


def _brief(fault: Exception) -> str:
    """Return the first line of a decoder's message, truncated and without control characters."""
    text = (str(fault) or type(fault).__name__).splitlines()[0][:200]
    return "".join(letter if letter.isprintable() else "?" for letter in text)
