"""Kernels of a trace to launches, forwards, cycles, phases and collectives."""
