"""python -m toolkit.reference.calibrating: measure this host once and write the numbers to a file."""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Sequence
from typing import NoReturn

from toolkit.reference.calibrating.settings import Settings, argument_parser, settings_of
from toolkit.reference.errors import SettingError
from toolkit.reference.launch import end_with_stdin, launch

_REFUSED = 2
_NO_DEVICE = 3
_ENVIRONMENT = {  # unless the user's own says otherwise
    # NVLink multicast is left out: what it does depends on the host
    "NCCL_NVLS_ENABLE": "0",
    "TORCH_SYMM_MEM_DISABLE_MULTICAST": "1",
    # the engines' check of peer access needs their own groups; the driver's word is taken instead
    "SGLANG_SKIP_P2P_CHECK": "1",
    "VLLM_SKIP_P2P_CHECK": "1",
}


def main(arguments: Sequence[str]) -> int:
    """Start a process for each rank; or, where `--tp-rank` says so, be one."""
    given, engine = argument_parser().parse_known_args(list(arguments))
    try:
        settings = settings_of(given, engine)
    except SettingError as error:
        sys.stderr.write(f"{error}\n")
        return _REFUSED
    if given.tp_rank is not None:
        end_with_stdin(lambda: os._exit(1))  # the launcher holds the other end
        _measure(settings, given.tp_rank)
    if given.end_with_stdin:
        end_with_stdin(lambda: os.kill(os.getpid(), signal.SIGTERM))
    ranks = _ranks(settings)
    if not ranks:
        return _NO_DEVICE
    for name, value in _ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    return launch([*arguments, "--gpus", str(ranks)], ranks, "toolkit.reference.calibrating")


def _ranks(settings: Settings) -> int:
    """Return how many ranks to start; 0 with a sentence on stderr where the host has too few GPUs."""
    if settings.engine.device == "cpu":
        return settings.gpus or min(2, max(settings.tp_sizes))
    import torch

    there = torch.cuda.device_count()
    if not there:
        sys.stderr.write(f"torch {torch.__version__} finds no GPU on this host\n")
        return 0
    if settings.gpus and settings.gpus > there:
        sys.stderr.write(f"--gpus is {settings.gpus}, but torch finds {there} on this host\n")
        return 0
    return settings.gpus or there


def _measure(settings: Settings, rank: int) -> NoReturn:
    """Measure as one rank, and end; a failure is told in one line, below its traceback."""
    from toolkit.reference.calibrating.measuring import measure

    code = 0
    try:
        measure(settings, rank)
    except Exception as error:
        traceback.print_exc()
        first = (str(error).strip() or "no reason given").splitlines()[0]
        sys.stderr.write(f"failed: rank {rank}: {type(error).__name__}: {first}\n")
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # at once: communicators wait for other ranks at their end, a thread for standard input


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
