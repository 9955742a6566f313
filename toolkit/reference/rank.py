"""One rank as a process: joins the others, makes its part of the model, serves."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import torch

from toolkit.reference import VERSION
from toolkit.reference.channel import Channel
from toolkit.reference.engine import Engine
from toolkit.reference.groups import Groups, join_groups
from toolkit.reference.http_api import ReferenceServer
from toolkit.reference.log_lines import arguments_line, write_line
from toolkit.reference.model import make_cycle, make_model
from toolkit.reference.options import Options
from toolkit.reference.plugins import load_plugins
from toolkit.reference.tracing import Tracer


def serve_rank(options: Options, tp_rank: int, rendezvous: Path | None) -> None:
    """Serve as one rank until told to stop; rank 0 answers clients and prints `ready <address>`."""
    signal.signal(signal.SIGTERM, _leave)
    torch.set_grad_enabled(False)
    torch.set_num_threads(options.threads)
    device = rank_device(options.device, tp_rank)
    if tp_rank == 0:
        write_line(arguments_line(options))
    plugins = load_plugins(tp_rank)
    groups = join_groups(
        tp_rank,
        options.tp,
        options.draft_tp,
        device,
        rendezvous,
        options.allreduce_delay_us,
        one_shot=options.collectives == "one-shot",
    )
    model = make_model(options, groups, device)
    tracer, channel = Tracer(tp_rank, options.tp), Channel(tp_rank, groups.control)
    engine = Engine(options, tp_rank, model, make_cycle(options, model, tracer), tracer, channel)
    engine.prepare()
    pids = _pids(groups)  # every rank has come this far
    if tp_rank == 0:
        server = ReferenceServer(options, channel, _facts(options, pids, plugins, device))
        server.serve_in_background()
        sys.stdout.write(f"ready {server.address}\n")
        sys.stdout.flush()
    engine.run()


def _leave(signum: int, frame: FrameType | None) -> None:
    """Leave as a program does at its end: what has to be put away, a plugin's socket say, is."""
    raise SystemExit


def rank_device(kind: str, tp_rank: int) -> torch.device:
    """Return the device of a rank, made the one that this process uses."""
    if kind == "cpu":
        return torch.device("cpu")
    device = torch.device("cuda", tp_rank)
    torch.cuda.set_device(device)
    torch.backends.cuda.enable_cudnn_sdp(False)  # it plans for every shape it sees, in the middle of serving
    return device


def _pids(groups: Groups) -> list[int]:
    if groups.control is None:
        return [os.getpid()]
    return [int(pid) for pid in groups.control.gather(str(os.getpid()).encode())]


def _facts(options: Options, pids: list[int], plugins: list[str], device: torch.device) -> dict[str, Any]:
    """Return what /server_info says: SGLang's names where it has them."""
    return {
        "engine": "reference",
        "version": VERSION,
        "torch": torch.__version__,
        "model_path": options.target.name,
        "speculative_draft_model_path": options.draft.name if options.draft else None,
        "vocab_size": options.target.vocab,
        "context_length": options.context,
        "max_running_requests": options.max_batch,
        "cuda_graph_bs": list(options.capture_sizes),
        "disable_cuda_graph": not options.cuda_graphs,
        "tp_size": options.tp,
        "draft_tp_size": options.draft_tp if options.num_steps else None,
        "num_steps": options.num_steps,
        "speculative_num_steps": options.num_steps or None,
        "speculative_eagle_topk": 1 if options.num_steps else None,
        "speculative_num_draft_tokens": options.num_draft_tokens if options.num_steps else None,
        "acceptance": "simulated" if options.curve else "real",
        "device": options.device,
        "device_name": torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu",
        "dtype": options.dtype,
        "collectives": options.collectives if options.device == "cuda" else "star",
        "allreduce_delay_us": options.allreduce_delay_us,
        "ranks": [{"tp_rank": rank, "pid": pid} for rank, pid in enumerate(pids)],
        "plugins": plugins,
    }
