"""Make torch profiler traces smaller for keeping: events and arguments that no analysis reads go.

    python tools/strip_trace.py traces/*/trace-TP-*.trace.json.gz

Left out: operators of the host, Python frames, flow arrows, the folder that the profiler wrote to, and of
kernels everything but device, stream, correlation, graph ids, grid and block. Times, names and order stay
as they are. Files are replaced.
"""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path
from typing import Any

_BULK = {"cpu_op", "python_function", "ac2g", "overhead"}
_KERNEL_ARGUMENTS = {
    "device",
    "stream",
    "correlation",
    "graph id",
    "graph node id",
    "grid",
    "block",
    "Group size",
    "In msg nelems",
    "dtype",
}


def stripped(event: dict[str, Any]) -> dict[str, Any] | None:
    """Return the event without what is not read, or None."""
    if event.get("cat") in _BULK:
        return None
    if event.get("cat") == "kernel":
        args = {name: value for name, value in event.get("args", {}).items() if name in _KERNEL_ARGUMENTS}
        return {**event, "args": args}
    return event


def strip(path: Path) -> tuple[int, int]:
    """Replace one file; return its size before and after, in bytes."""
    before = path.stat().st_size
    with gzip.open(path) as file:
        trace = json.load(file)
    trace["traceEvents"] = [kept for event in trace["traceEvents"] if (kept := stripped(event))]
    if "traceName" in trace:
        trace["traceName"] = Path(trace["traceName"]).name
    text = json.dumps(trace, separators=(",", ":")).encode()
    made = path.with_suffix(".new")
    made.write_bytes(gzip.compress(text, 9, mtime=0))
    made.replace(path)
    return before, path.stat().st_size


if __name__ == "__main__":
    for name in sys.argv[1:]:
        old, new = strip(Path(name))
        sys.stdout.write(f"{name}: {old:,} to {new:,} bytes\n")
