"""The version of a package in another process's environment, found without importing anything."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path

from toolkit.live.proc import PROC, inner_path, mapped_files

_SITE = re.compile(r"^(.*/(?:site|dist)-packages)/")
_LIBRARIES = ("lib/python3*/site-packages", "lib/python3*/dist-packages", "lib64/python3*/site-packages")


def package_version(
    pid: int, package: str, command: tuple[str, ...], environment: dict[str, str]
) -> str | None:
    """Return the version that a package's metadata names, from the places the process imports from."""
    for folder in dict.fromkeys(_site_folders(pid, command, environment)):
        found = _version_in(folder, package)
        if found:
            return found
    return None


def _version_in(folder: Path, package: str) -> str | None:
    try:
        metadata = sorted(folder.glob(f"{package}-*.dist-info/METADATA"))
        for path in metadata:
            head = path.read_text(encoding="utf-8", errors="replace")[:4096]
            found = re.search(r"^Version: *(\S+)", head, re.MULTILINE)
            if found:
                return found[1]
    except OSError:
        return None
    return None


def _site_folders(pid: int, command: tuple[str, ...], environment: dict[str, str]) -> Iterator[Path]:
    """Yield folders in the order in which the process would look, as they lie from here."""
    for entry in environment.get("PYTHONPATH", "").split(":"):
        if entry:
            yield inner_path(pid, entry)
    for path in mapped_files(pid):
        found = _SITE.match(path)
        if found:
            yield inner_path(pid, found[1])
    for prefix in _prefixes(pid, command, environment):
        for pattern in _LIBRARIES:
            yield from sorted(prefix.glob(pattern))


def _prefixes(pid: int, command: tuple[str, ...], environment: dict[str, str]) -> Iterator[Path]:
    """Yield what may be the interpreter's sys.prefix: of a virtual environment first."""
    programs = [word for word in command[:2] if "/" in word and not word.startswith("-")]
    with contextlib.suppress(OSError):
        programs.append(str((PROC / str(pid) / "exe").readlink()))
    found = [environment[name] for name in ("VIRTUAL_ENV", "CONDA_PREFIX") if environment.get(name)]
    for prefix in (*(str(Path(program).parent.parent) for program in programs), *found, "/usr/local", "/usr"):
        yield inner_path(pid, prefix)
