"""Other readers of profiler traces, each in an environment of its own, and what they are asked to do."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

_HTA_ONE = """
import sys, warnings; warnings.simplefilter("ignore")
from hta.trace_analysis import TraceAnalysis
found = TraceAnalysis(trace_files=dict(enumerate(sys.argv[1:])), trace_dir="")
found.get_temporal_breakdown(visualize=False)
found.get_comm_comp_overlap(visualize=False)
found.get_gpu_kernel_breakdown(visualize=False)
"""
_HTA_LOAD = """
import sys
from hta.trace_analysis import TraceAnalysis
TraceAnalysis(trace_files=dict(enumerate(sys.argv[1:])), trace_dir="")
"""
_TRACELENS_ONE = """
import sys
from TraceLens import TreePerfAnalyzer
found = TreePerfAnalyzer.from_file(sys.argv[1])
found.get_df_gpu_timeline()
found.get_df_kernel_launchers()
"""
_TRACELENS_RANKS = """
import sys
from TraceLens import NcclAnalyser
found = NcclAnalyser(sys.argv[1:], len(sys.argv) - 1)
found.build_df_summary_nccl_implicit_sync_cat()
"""


@dataclass(frozen=True, slots=True)
class Task:
    """A program that is given the paths of traces: of one rank, or of all."""

    says: str
    program: str
    all_ranks: bool


@dataclass(frozen=True, slots=True)
class Rival:
    """A package, where pip finds it, and what is measured of it."""

    name: str
    distribution: str
    requirements: tuple[str, ...]
    tasks: tuple[Task, ...]


HTA = Rival(
    "HolisticTraceAnalysis",
    "HolisticTraceAnalysis",
    ("HolisticTraceAnalysis", "pandas<3"),  # it fails with later ones
    (
        Task("load one rank", _HTA_LOAD, all_ranks=False),
        Task("load one rank, three analyses", _HTA_ONE, all_ranks=False),
        Task("load all ranks, three analyses", _HTA_ONE, all_ranks=True),
    ),
)
TRACELENS = Rival(  # the package of that name on the index is another one
    "TraceLens",
    "TraceLens",
    ("TraceLens @ git+https://github.com/AMD-AGI/TraceLens.git",),
    (
        Task("one rank: tree, timeline, launchers", _TRACELENS_ONE, all_ranks=False),
        Task("collectives of all ranks", _TRACELENS_RANKS, all_ranks=True),
    ),
)


def installed(rival: Rival, folder: Path, source: str | None) -> tuple[Path | None, str]:
    """Return the Python of an environment that has a rival and its version, or None and why it has not.

    `source` is a copy of its repository to install in place of what pip would fetch.
    """
    python = folder / rival.name / "bin" / "python"
    try:
        if not python.exists():
            subprocess.run(
                [sys.executable, "-m", "venv", folder / rival.name], check=True, capture_output=True
            )
        if not _version(python, rival):
            wanted = (source,) if source else rival.requirements
            pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *wanted]
            subprocess.run(pip, check=True, capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError) as error:
        said = str(getattr(error, "stderr", "") or error).strip().splitlines()
        return None, next((line for line in reversed(said) if "ERROR" in line), said[-1] if said else "?")
    return python, _version(python, rival) or "?"


def _version(python: Path, rival: Rival) -> str | None:
    code = f"from importlib.metadata import version; print(version({rival.distribution!r}))"
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False)
    return done.stdout.strip() or None
