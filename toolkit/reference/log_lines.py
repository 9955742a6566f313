"""Log lines in SGLang's words, so that one reader takes both engines' logs; rank 0 writes them."""

from __future__ import annotations

import sys
import time

from toolkit.reference import VERSION
from toolkit.reference.batch import Request
from toolkit.reference.cycle import CycleResult
from toolkit.reference.options import Options


def write_line(message: str, tp_rank: int | None = None) -> None:
    """Write one line to stderr, with time and rank in front."""
    rank = "" if tp_rank is None else f" TP{tp_rank}"
    sys.stderr.write(f"[{time.strftime('%Y-%m-%d %H:%M:%S')}{rank}] {message}\n")
    sys.stderr.flush()


def arguments_line(options: Options) -> str:
    """Return how the server was started, as SGLang prints it."""
    speculative = bool(options.num_steps)
    said = {
        "engine": "reference",
        "engine_version": VERSION,
        "model_path": options.target.name,
        "context_length": options.context,
        "device": options.device,
        "dtype": options.dtype,
        "max_running_requests": options.max_batch,
        "tp_size": options.tp,
        "random_seed": options.seed,
        "attention_backend": "torch_sdpa",
        "disable_overlap_schedule": True,
        "disable_cuda_graph": not options.cuda_graphs,
        "cuda_graph_bs": list(options.capture_sizes),
        "speculative_algorithm": "EAGLE" if speculative else None,
        "speculative_draft_model_path": options.draft.name if options.draft else None,
        "speculative_num_steps": options.num_steps if speculative else None,
        "speculative_eagle_topk": 1 if speculative else None,
        "speculative_num_draft_tokens": options.num_draft_tokens if speculative else None,
        "speculative_draft_tp_size": options.draft_tp if speculative else None,
        "simulated_acceptance": options.curve is not None,
        "collectives": options.collectives if options.device == "cuda" else "star",
        "allreduce_delay_us": options.allreduce_delay_us,
    }
    return "server_args=ServerArgs(" + ", ".join(f"{name}={value!r}" for name, value in said.items()) + ")"


class CycleLog:
    """Writes a line for each prefill, and one for every `options.log_interval` cycles."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._since = time.monotonic()
        self._seconds = 0.0
        self._cycles = self._requests = self._correct = 0

    def wake(self) -> None:
        """Leave out the idle time since the last cycle: waiting for requests is not decoding."""
        self._since = time.monotonic()

    def prefill(self, admitted: list[Request], running: int, waiting: int) -> None:
        """Say that prompts were computed; `running` requests already decode."""
        tokens = sum(len(request.input_ids) for request in admitted)
        write_line(
            f"Prefill batch, #new-seq: {len(admitted)}, #new-token: {tokens}, #cached-token: 0, "
            f"token usage: {self._usage(0):.2f}, #running-req: {running}, #queue-req: {waiting}, ",
            0,
        )

    def cycle(self, result: CycleResult, waiting: int) -> None:
        """Count one cycle, and write the line when it is due."""
        now = time.monotonic()
        self._seconds += now - self._since
        self._since = now
        self._cycles += 1
        self._requests += result.batch_size
        self._correct += sum(result.correct_drafts)
        if self._cycles < self._options.log_interval:
            return
        held = sum(result.contexts)
        write_line(
            f"Decode batch, #running-req: {result.batch_size}, #token: {held}, "
            f"token usage: {self._usage(held):.2f}, {self._acceptance()}"
            f"cuda graph: {any(result.graph.values())}, gen throughput (token/s): "
            f"{(self._requests + self._correct) / self._seconds:.2f}, #queue-req: {waiting}",
            0,
        )
        self._seconds = 0.0
        self._cycles = self._requests = self._correct = 0

    def _acceptance(self) -> str:
        """Accept length with the bonus token, accept rate without: correct over proposed drafts."""
        steps = self._options.num_steps
        if not steps:
            return ""
        kept = self._correct / self._requests
        return f"accept len: {1 + kept:.2f}, accept rate: {kept / steps:.2f}, "

    def _usage(self, held: int) -> float:
        return held / (self._options.max_batch * self._options.context)
