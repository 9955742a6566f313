"""What of a model and its GPU bends the cost of a forward."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from toolkit.model.experts import Experts

# Streaming multiprocessors, by what NVIDIA calls the GPU; the SXM form of each.
_PROCESSORS = (("H100", 132), ("H200", 132), ("H20", 78), ("A100", 108), ("B200", 148), ("L40S", 142))


@dataclass(frozen=True, slots=True)
class ModelShape:
    """`experts`: routed experts that bend the growth with the steps; only where cycles alone are known.

    `wave_requests`: requests whose attention runs side by side, where a thread block takes one head of
    one request and reads all its keys; None where that is not known to be so.

    `knee_tokens`: tokens of a forward beyond which it computes longer than it reads; None: no knee was seen.
    """

    experts: Experts | None = None
    experts_apart: bool = False  # then experts have terms of their own, and nothing else bends
    wave_requests: float | None = None
    knee_tokens: float | None = None

    def waves(self, batch_size: int) -> int:
        """Return how often in a row the attention of a batch fills the GPU."""
        return 1 if self.wave_requests is None else max(ceil(batch_size / self.wave_requests), 1)

    def beyond_knee(self, tokens: int) -> float:
        """Return how many of the tokens of a forward lie beyond its knee."""
        return 0.0 if self.knee_tokens is None else max(tokens - self.knee_tokens, 0.0)


DENSE = ModelShape()


def wave_requests(
    heads: int | None, tp_size: int | None, gpu: str | None, backend: str | None
) -> float | None:
    """Return the requests of a wave of SGLang's Triton verify kernel; None for others, or where unknown.

    Its grid is (requests, heads of the rank, blocks of query tokens): one block of queries for a chain.
    """
    processors = next((count for name, count in _PROCESSORS if name in (gpu or "").upper()), None)
    if not heads or not processors or (backend or "").lower() != "triton":
        return None
    return processors / max(heads / (tp_size or 1), 1)
