"""Conversions between the units that are stored and the units that are shown."""

NS_PER_US = 1_000
US_PER_MS = 1_000.0
US_PER_S = 1_000_000.0
NS_PER_S = 1_000_000_000
PPM = 1_000_000.0  # a ratio times this is in parts per million


def us_from_ns(ns: float) -> float:
    """Return microseconds for a time in nanoseconds."""
    return ns / NS_PER_US


def ms_from_us(us: float) -> float:
    """Return milliseconds for a time in microseconds."""
    return us / US_PER_MS


def us_from_ms(ms: float) -> float:
    """Return microseconds for a time in milliseconds."""
    return ms * US_PER_MS


def tokens_per_second(tokens_per_cycle: float, cycle_us: float) -> float:
    """Return tokens per second for tokens committed in one cycle of `cycle_us`."""
    return tokens_per_cycle * US_PER_S / cycle_us


def cycle_us_of(tokens_per_cycle: float, tok_s: float) -> float:
    """Return the cycle in us in which `tokens_per_cycle` are committed at `tok_s` tokens per second."""
    return tokens_per_cycle * US_PER_S / tok_s
