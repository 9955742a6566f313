"""NVML samples beside a recording: clocks, power, throttling, links, other processes (gpu.jsonl)."""

from __future__ import annotations

import contextlib
import importlib
import json
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from toolkit.units import NS_PER_S

GPU_SCHEMA = "toolkit.gpu/1"
_EVERY_S = 0.5
# nvml.h, nvmlClocksEventReasons: those that lower clocks below what was set
_SLOWED = {
    0x04: "sw_power_cap",
    0x08: "hw_slowdown",
    0x20: "sw_thermal",
    0x40: "hw_thermal",
    0x80: "hw_power_brake",
}


class Nvml:
    """The library, if this host has it; `why_not` is a sentence otherwise."""

    def __init__(self, load: Callable[[str], Any] = importlib.import_module) -> None:
        self.why_not: str | None = None
        self.handles: list[Any] = []
        try:
            self._nvml = load("pynvml")
            self._nvml.nvmlInit()
            count = self._nvml.nvmlDeviceGetCount()
            self.handles = [self._nvml.nvmlDeviceGetHandleByIndex(at) for at in range(count)]
        except Exception as error:  # of the library's own kinds, or of the loader
            self.why_not = f"no NVML on this host ({error}), so clocks and power are not sampled"

    def names(self) -> list[str]:
        """Return the name of each GPU."""
        return [_text(self._nvml.nvmlDeviceGetName(handle)) for handle in self.handles]

    def gpus_of(self, pids: Sequence[int]) -> list[int]:
        """Return the indices of the GPUs on which any of the processes computes."""
        return [at for at, handle in enumerate(self.handles) if self._pids(handle) & set(pids)]

    def _pids(self, handle: Any) -> set[int]:
        with contextlib.suppress(self._nvml.NVMLError):
            return {one.pid for one in self._nvml.nvmlDeviceGetComputeRunningProcesses(handle)}
        return set()

    def sample(self, at: int, ours: set[int]) -> dict[str, Any]:
        """Return one sample of one GPU; a counter that it lacks is null."""
        nvml, handle = self._nvml, self.handles[at]
        reasons = self._try(nvml.nvmlDeviceGetCurrentClocksThrottleReasons, handle)
        power = self._try(nvml.nvmlDeviceGetPowerUsage, handle)
        pids = self._pids(handle)
        return {
            "gpu": at,
            "sm_mhz": self._try(nvml.nvmlDeviceGetClockInfo, handle, nvml.NVML_CLOCK_SM),
            "memory_mhz": self._try(nvml.nvmlDeviceGetClockInfo, handle, nvml.NVML_CLOCK_MEM),
            "power_w": None if power is None else power / 1000,  # NVML counts mW
            "temperature_c": self._try(nvml.nvmlDeviceGetTemperature, handle, nvml.NVML_TEMPERATURE_GPU),
            "slowed_by": None
            if reasons is None
            else [name for bit, name in _SLOWED.items() if reasons & bit],
            "pcie_tx_kb_s": self._try(nvml.nvmlDeviceGetPcieThroughput, handle, nvml.NVML_PCIE_UTIL_TX_BYTES),
            "pcie_rx_kb_s": self._try(nvml.nvmlDeviceGetPcieThroughput, handle, nvml.NVML_PCIE_UTIL_RX_BYTES),
            "nvlink_tx_kib": self._nvlink(handle, "NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX"),
            "nvlink_rx_kib": self._nvlink(handle, "NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX"),
            "own_processes": len(pids & ours),
            "other_processes": len(pids - ours),
        }

    def _nvlink(self, handle: Any, field_name: str) -> int | None:
        """Return a counter summed over links, in KiB since the driver was loaded."""
        field = getattr(self._nvml, field_name, None)
        if field is None:
            return None
        every_link = 0xFFFFFFFF  # nvml.h: scopeId UINT_MAX sums over links
        found = self._try(self._nvml.nvmlDeviceGetFieldValues, handle, [(field, every_link)])
        if not found or found[0].nvmlReturn:
            return None
        return int(found[0].value.ullVal)

    def _try(self, call: Callable[..., Any], *arguments: Any) -> Any:
        with contextlib.suppress(self._nvml.NVMLError):
            return call(*arguments)
        return None


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


class GpuSampling:
    """Samples some GPUs in a thread of its own until it is stopped."""

    def __init__(self, nvml: Nvml, gpus: Sequence[int], own_pids: Sequence[int]) -> None:
        self.samples: list[dict[str, Any]] = []
        self._stop = threading.Event()
        self._nvml, self._gpus, self._own = nvml, list(gpus), set(own_pids)
        self._thread = threading.Thread(target=self._run, daemon=True)
        if self._gpus:
            self._thread.start()

    def _run(self) -> None:
        while True:
            for at in self._gpus:
                begin = time.monotonic_ns()
                try:
                    self.samples.append({"t_ns": begin, **self._nvml.sample(at, self._own)})
                except Exception:  # a GPU that fell off the bus must not end the profile
                    return
            if self._stop.wait(_EVERY_S):
                return

    def finish(self) -> list[dict[str, Any]]:
        """Stop and return the samples in order of time."""
        self._stop.set()
        if self._gpus:
            self._thread.join(10)
        return self.samples


def gpu_lines(samples: Sequence[dict[str, Any]], names: Sequence[str]) -> str:
    """Return the text of gpu.jsonl: a header, then a sample a line."""
    header = {"schema": GPU_SCHEMA, "clock": "host monotonic", "gpus": list(names), "every_s": _EVERY_S}
    return "".join(json.dumps(line) + "\n" for line in (header, *samples))


def slowed_windows(samples: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the stretches of time in which a GPU ran below its clocks, half a sample wider each way."""
    margin = int(_EVERY_S * NS_PER_S)
    windows: list[dict[str, Any]] = []
    for sample in sorted(samples, key=lambda one: int(one["t_ns"])):
        reasons = sample.get("slowed_by") or []
        if not reasons:
            continue
        begin, end = sample["t_ns"] - margin, sample["t_ns"] + margin
        why = f"GPU {sample['gpu']} slowed by {', '.join(reasons)}"
        if windows and begin <= windows[-1]["to_ns"] and windows[-1]["why"] == why:
            windows[-1]["to_ns"] = end
        else:
            windows.append({"from_ns": begin, "to_ns": end, "why": why})
    return windows


def clock_summary(samples: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the range of SM clocks and the share of samples that were slowed, for run.json."""
    clocks = [sample["sm_mhz"] for sample in samples if sample.get("sm_mhz")]
    if not clocks:
        return {}
    slowed = sum(bool(sample.get("slowed_by")) for sample in samples)
    return {"sm_mhz": [min(clocks), max(clocks)], "slowed_share": round(slowed / len(samples), 4)}
