"""Dummy weights: drawn whole from a seed of their own, so that every split holds the same model."""

from __future__ import annotations

import zlib

import torch
from torch import Tensor


class Weights:
    """Makes matrices by name. What target and draft share is made once, where their parts are equal."""

    def __init__(self, seed: int, device: torch.device, dtype: torch.dtype) -> None:
        self.device, self.dtype = device, dtype
        self._seed = seed
        self._shared: dict[tuple[str, int, int], Tensor] = {}

    def normal(
        self, name: str, shape: tuple[int, int], deviation: float, keep: slice, axis: int = 0
    ) -> Tensor:
        """Return rows (axis 0) or columns (axis 1) `keep` of a normally distributed matrix."""
        generator = torch.Generator(self.device).manual_seed(self._seed ^ zlib.crc32(name.encode()))
        whole = torch.empty(shape, device=self.device, dtype=self.dtype)
        whole.normal_(0.0, deviation, generator=generator)
        return (whole[keep] if axis == 0 else whole[:, keep]).clone()

    def shared(self, name: str, shape: tuple[int, int], deviation: float, keep: slice) -> Tensor:
        """Return rows `keep` of a matrix that several models use."""
        key = (name, keep.start, keep.stop)
        if key not in self._shared:
            self._shared[key] = self.normal(name, shape, deviation, keep)
        return self._shared[key]

    def ones(self, count: int) -> Tensor:
        """Return the weight of a norm."""
        return torch.ones(count, device=self.device, dtype=self.dtype)
