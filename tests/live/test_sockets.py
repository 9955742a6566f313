"""A rank's socket is found wherever it can be seen from."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from toolkit.live import sockets
from toolkit.live.probe_client import ProbeConnection
from toolkit.live.sockets import probe_sockets

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs Unix sockets")


@pytest.fixture
def mounted(tmp_path: Path) -> Iterator[Path]:
    """Yield a folder, deep enough that a path to its socket is too long for an address."""
    folder = tmp_path / ("deep" * 20) / ("deeper" * 10)
    folder.mkdir(parents=True)
    handle = os.open(folder, os.O_RDONLY)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(f"/proc/self/fd/{handle}/{os.getpid()}.sock")
        listening.listen()
        yield folder
    os.close(handle)


def test_a_folder_mounted_from_a_container_is_looked_into(
    mounted: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sockets, "inner_path", lambda pid, path: tmp_path / "out of reach")
    pid = os.getpid()
    inside = {"TOOLKIT_PROBE_DIR": "/run/probe"}
    assert probe_sockets([pid], inside) == {}
    monkeypatch.setenv("TOOLKIT_PROBE_DIR", str(mounted))
    found = probe_sockets([pid], inside)[pid]
    assert (found.folder, found.inner_folder) == (mounted, "/run/probe")


def test_a_path_too_long_for_an_address_is_connected_to(mounted: Path) -> None:
    place = probe_sockets([os.getpid()], {"TOOLKIT_PROBE_DIR": str(mounted)})[os.getpid()]
    assert len(str(place.folder)) > 107
    ProbeConnection(place).close()
