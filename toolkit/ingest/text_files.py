"""Lines of a text file, plain or gzip, whole or cut."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any

from toolkit.errors import BadInputError

_codec: Any = zlib
try:  # about three times faster on a log of 100 MB
    from isal import isal_zlib

    _codec = isal_zlib
except ImportError:  # pragma: no cover - isal is not built for every platform
    pass

_GZIP_MAGIC = b"\x1f\x8b"
_GZIP_WINDOW = 31  # zlib's code for a gzip header and trailer
_CHUNK_BYTES = 1 << 20


def read_bytes(path: Path) -> bytes:
    """Return the file's bytes; BadInputError in one sentence when it cannot be read."""
    try:
        return path.read_bytes()
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise BadInputError(f"{path} cannot be read ({reason}); check its path and permissions") from error


def unzipped(packed: bytes) -> tuple[bytes, str | None]:
    """Return what a gzip file holds and, when it is cut or damaged, why it stops there."""
    parts: list[bytes] = []
    rest = packed
    while rest[: len(_GZIP_MAGIC)] == _GZIP_MAGIC:
        member = _codec.decompressobj(wbits=_GZIP_WINDOW)
        at = 0
        while at < len(rest) and not member.eof:
            try:
                parts.append(member.decompress(rest[at : at + _CHUNK_BYTES]))
            except Exception as error:  # isal and zlib have error classes of their own
                return b"".join(parts), f"its compression is damaged ({error})"
            at += _CHUNK_BYTES
        if not member.eof:
            return b"".join(parts), "its compressed stream is cut"
        rest = member.unused_data + rest[at:]
    return b"".join(parts), None


def decoded(raw: bytes) -> str:
    """Return the text of UTF-8 bytes, or of UTF-16 ones with a mark; bad bytes are replaced."""
    if raw[:2] in (b"\xff\xfe", b"\xfe\xff"):  # PowerShell's `>` writes UTF-16
        return raw.decode("utf-16", errors="replace")
    return raw.decode("utf-8-sig", errors="replace")


def read_text_lines(path: Path) -> tuple[list[str], tuple[str, ...]]:
    r"""Return the lines of a text file, without their ends, and sentences on its damage.

    Only `\n` and `\r\n` end a line, so that line numbers are an editor's. Of a cut gzip file the
    last line is left out unless its end was read: half a line may hold half a number.
    """
    raw = read_bytes(path)
    if not raw:
        return [], (f"{path} is empty",)
    if raw[: len(_GZIP_MAGIC)] != _GZIP_MAGIC:
        return _lines(decoded(raw)), ()
    body, fault = unzipped(raw)
    text = decoded(body)
    if fault is None:
        return (_lines(text), ()) if text else ([], (f"{path} is empty",))
    lines = _lines(text[: text.rfind("\n") + 1])
    return lines, (f"{path}: {fault}; {len(lines)} lines before that point were read",)


def _lines(text: str) -> list[str]:
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    return [line.removesuffix("\r") for line in lines]
