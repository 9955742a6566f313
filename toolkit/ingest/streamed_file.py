"""Large files written piece by piece: all of one appears under its name or nothing; gzip when named .gz."""

from __future__ import annotations

import gzip
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import IO, cast

from toolkit.errors import BadInputError
from toolkit.ingest.model_file import refuse_existing

_COMPRESSION = 4  # higher levels take three times as long for a tenth less


def write_new_pieces(path: Path, pieces: Iterable[str], *, overwrite: bool) -> None:
    """Write text in pieces; an existing file is kept (UsageError) unless `overwrite`."""
    refuse_existing(path, overwrite=overwrite)
    try:
        descriptor, partial = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        try:
            with os.fdopen(descriptor, "wb") as file:
                _write(file, pieces, packed=path.suffix == ".gz")
            os.chmod(partial, 0o644)  # mkstemp makes it readable by its owner alone
            os.replace(partial, path)
        except BaseException:
            Path(partial).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise BadInputError(f"{path} cannot be written ({error.strerror}); name another place") from None


def _write(file: IO[bytes], pieces: Iterable[str], *, packed: bool) -> None:
    if not packed:
        file.writelines(piece.encode() for piece in pieces)
        return
    with gzip.GzipFile(filename="", mode="wb", fileobj=file, compresslevel=_COMPRESSION, mtime=0) as out:
        cast("IO[bytes]", out).writelines(piece.encode() for piece in pieces)
