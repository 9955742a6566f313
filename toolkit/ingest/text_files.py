"""Lines of a text file, plain or gzip, whole or cut."""

from __future__ import annotations

from pathlib import Path

from toolkit.ingest.byte_chunks import read_chunks

MOST_BYTES = 256 << 20  # of a text that is held whole; a few packed bytes may hold gigabytes


def read_bytes(path: Path) -> tuple[bytes, tuple[str, ...]]:
    """Return a file's bytes, inflated if it is gzip, and sentences on where that stopped early.

    Of a file longer than `MOST_BYTES` the rest is left out. Raises BadInputError in one sentence when it
    cannot be read.
    """
    damage: list[str] = []
    kept: list[bytes] = []
    left = MOST_BYTES
    for chunk in read_chunks(path, damage):
        kept.append(chunk[:left])
        left -= len(kept[-1])
        if len(kept[-1]) < len(chunk):
            damage.append(f"{path.name}: it is longer than {MOST_BYTES >> 20} MB, the rest was left out")
            break
    return b"".join(kept), tuple(damage)


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
    raw, damage = read_bytes(path)
    if not raw and not damage:
        return [], (f"{path} is empty",)
    text = decoded(raw)
    if not damage:
        return _lines(text), ()
    lines = _lines(text[: text.rfind("\n") + 1])
    return lines, (*damage, f"{path}: {len(lines)} whole lines were read before that point")


def _lines(text: str) -> list[str]:
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    return [line.removesuffix("\r") for line in lines]
