"""NVML samples, from a stand-in for the library."""

from __future__ import annotations

import json
import time
from types import SimpleNamespace
from typing import Any

from toolkit.live.gpu import GpuSampling, Nvml, clock_summary, gpu_lines, slowed_windows


class Library:
    """One GPU that is held down by its power limit and lacks PCIe counters."""

    NVML_CLOCK_SM = NVML_CLOCK_MEM = NVML_TEMPERATURE_GPU = NVML_PCIE_UTIL_TX_BYTES = (
        NVML_PCIE_UTIL_RX_BYTES
    ) = 0

    class NVMLError(Exception):
        pass

    def __getattr__(self, name: str) -> Any:
        answers = {
            "nvmlInit": None,
            "nvmlDeviceGetCount": 1,
            "nvmlDeviceGetHandleByIndex": "gpu",
            "nvmlDeviceGetName": b"NVIDIA Stand-in",
            "nvmlDeviceGetComputeRunningProcesses": [SimpleNamespace(pid=7), SimpleNamespace(pid=8)],
            "nvmlDeviceGetCurrentClocksThrottleReasons": 0x05,
            "nvmlDeviceGetPowerUsage": 350_500,
            "nvmlDeviceGetClockInfo": 1410,
            "nvmlDeviceGetTemperature": 60,
        }
        if name == "nvmlDeviceGetPcieThroughput":
            return self.refuse
        if name not in answers:
            raise AttributeError(name)
        return lambda *arguments: answers[name]

    def refuse(self, *arguments: object) -> None:
        raise self.NVMLError("not supported")


def test_a_sample_counts_own_and_other_processes_and_leaves_open_what_is_not_there() -> None:
    nvml = Nvml(lambda name: Library())
    assert (nvml.names(), nvml.gpus_of([7]), nvml.gpus_of([9])) == (["NVIDIA Stand-in"], [0], [])
    sample = nvml.sample(0, {7})
    assert (sample["own_processes"], sample["other_processes"]) == (1, 1)
    assert (sample["power_w"], sample["slowed_by"]) == (350.5, ["sw_power_cap"])
    assert sample["pcie_tx_kb_s"] is None
    assert sample["nvlink_tx_kib"] is None


def test_a_host_without_the_library_is_one_sentence() -> None:
    def absent(name: str) -> Any:
        raise ModuleNotFoundError("No module named 'pynvml'")

    nvml = Nvml(absent)
    assert nvml.handles == []
    assert "No module named 'pynvml'" in (nvml.why_not or "")


def test_sampling_ends_when_told_and_writes_a_line_each() -> None:
    sampling = GpuSampling(Nvml(lambda name: Library()), [0], [7])
    time.sleep(0.05)
    samples = sampling.finish()
    header, *lines = map(json.loads, gpu_lines(samples, ["NVIDIA Stand-in"]).splitlines())
    assert header["schema"] == "toolkit.gpu/1"
    assert lines == samples
    assert clock_summary(samples) == {"sm_mhz": [1410, 1410], "slowed_share": 1.0}


def test_slowed_samples_next_to_each_other_are_one_window() -> None:
    second = 1_000_000_000
    samples = [
        {"t_ns": at * second, "gpu": 0, "slowed_by": ["sw_power_cap"] if slowed else []}
        for at, slowed in enumerate([0, 1, 1, 0, 0, 0, 1])
    ]
    windows = slowed_windows(samples)
    assert [(one["from_ns"], one["to_ns"]) for one in windows] == [
        (second // 2, 2 * second + second // 2),
        (5 * second + second // 2, 6 * second + second // 2),
    ]
    assert windows[0]["why"] == "GPU 0 slowed by sw_power_cap"
