"""Outputs that documents show, held to what the commands print now.

    python tools/shown_outputs.py           writes what is printed now into the documents
    python tools/shown_outputs.py --check   says what differs, and changes nothing

A shown output may leave lines out with a line of three dots. Lines are found by their words, so that only
numbers are written again; an output whose words changed is named, to be mended by hand.
"""

from __future__ import annotations

import argparse
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FIRST = "traces/2026-11-30-sglang-llama-8b-shaped-dummy-tp1"
_STACKS = "inspect traces/2026-11-29-sglang-llama8b-dummy-tp2-k3-b1"
_ANYWAY = "predict --model kimi.json --accept-rate 0.36 --at-num-draft-tokens 6 --steps 2 --anyway"
_SHOWN = {  # document -> (what stands above the output, the command that prints it)
    "README.md": [
        (f"    $ toolkit inspect {FIRST}-k3-b1", f"inspect {FIRST}-k3-b1"),
        ("    $ toolkit model fit traces/ -o cost-model.json", "model fit traces/ -o cost-model.json"),
        (
            "    $ toolkit predict --accept-rate 0.36 --engine sglang --tp-size 1",
            "predict --accept-rate 0.36 --engine sglang --tp-size 1",
        ),
    ],
    "docs/commands/inspect.md": [
        (f"Of one run (`toolkit {_STACKS}`) the text begins", _STACKS),
    ],
    "docs/quick-start-sglang.md": [
        ("repository, made by step 3 on an H200:", f"inspect {FIRST}-k3-b1"),
        ("", "model fit " + " ".join(f"{FIRST}-k{k}-b{b}" for k in (0, 1, 3) for b in (1, 4)) + " -o e.json"),
        ("prints", "predict --model e.json --accept-length 2.40 --at-num-draft-tokens 4"),
    ],
    "docs/founding-case.md": [
        ("## `toolkit inspect kimi`", "inspect kimi"),
        ("## `toolkit model fit kimi -o kimi.json`", "model fit kimi -o kimi.json"),
        (
            "## `toolkit predict --model kimi.json --accept-rate 0.36`",
            "predict --model kimi.json --accept-rate 0.36",
        ),
        (
            "## `toolkit predict --model kimi.json --accept-rate 0.36 --verify-share 0.95`",
            "predict --model kimi.json --accept-rate 0.36 --verify-share 0.95",
        ),
        (f"`toolkit {_ANYWAY}`:", _ANYWAY),
    ],
}
_DOTS, _INDENT = "...", "    "
_NUMBER, _MARKS = re.compile(r"[\d][\d.,]*"), re.compile(r"[*+^~%-]")
_BAR = re.compile(r"[▒█▞░·─]+")


class MovedError(Exception):
    """Lines of a document that no command prints any more, in words."""


def printed(command: str, folder: Path) -> list[str]:
    """Return what a command prints; of one that fails, its message."""
    done = subprocess.run(
        [sys.executable, "-m", "toolkit", *shlex.split(command)],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", "HOME": str(folder)},
    )
    return (done.stdout or done.stderr).splitlines()


def words(line: str) -> str:
    """Return a line without its numbers, marks and bars."""
    return " ".join(_MARKS.sub("", _NUMBER.sub("#", _BAR.sub("bar", line))).split())


def now(shown: Sequence[str], output: Sequence[str]) -> list[str]:
    """Return lines as they are printed now; `MovedError` where one has other words, or is not printed."""
    made: list[str] = []
    at = 0
    for line in shown:
        if line.strip() in ("", _DOTS):
            made.append(line)
            continue
        found = next((i for i in range(at, len(output)) if words(output[i]) == words(line)), None)
        if found is None:
            raise MovedError(line)
        made.append(output[found].rstrip())
        at = found + 1
    return made


def blocks(lines: Sequence[str], marker: str) -> tuple[int, int]:
    """Return where the first indented block after a line begins and ends."""
    start = lines.index(marker) + 1
    while not lines[start].startswith(_INDENT):
        start += 1
    end = start
    while end < len(lines) and (lines[end].startswith(_INDENT) or not lines[end]):
        if lines[end].startswith(f"{_INDENT}$ "):
            break
        end += 1
    while not lines[end - 1]:
        end -= 1
    return start, end


def renewed(document: str, folder: Path) -> Iterator[tuple[str, list[str]]]:
    """Yield each sentence on a fault, with the document as it should be so far."""
    lines = (ROOT / document).read_text(encoding="utf-8").splitlines()
    for marker, command in _SHOWN[document]:
        output = printed(command, folder)
        if not marker:  # its output is not shown; what follows needs what it writes
            continue
        start, end = blocks(lines, marker)
        shown = [line.removeprefix(_INDENT) for line in lines[start:end]]
        try:
            made = now(shown, output)
        except MovedError as error:
            yield f"{document}: `toolkit {command}` no longer prints: {error}", lines
            continue
        if made != shown:
            lines[start:end] = [f"{_INDENT}{line}".rstrip() for line in made]
            yield f"{document}: numbers of `toolkit {command}` differ", lines


def main() -> int:
    """Check or renew every document and return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="change nothing")
    check = parser.parse_args().check
    wrong = False
    with tempfile.TemporaryDirectory(prefix="shown-outputs-") as made:
        folder = Path(made)
        (folder / "traces").symlink_to(ROOT / "traces")
        shutil.copytree(ROOT / "tests" / "data" / "kimi-k2.5-tp8", folder / "kimi")
        for document in _SHOWN:
            for said, lines in renewed(document, folder):
                sys.stdout.write(f"{said}\n")
                wrong = wrong or check or "no longer" in said
                if not check:
                    (ROOT / document).write_text("\n".join(lines) + "\n", encoding="utf-8")
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main())
