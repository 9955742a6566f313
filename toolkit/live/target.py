"""An attached server with everything needed to look at it, opened once for a profile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any

from toolkit.errors import CaptureError
from toolkit.live.attach import attach
from toolkit.live.command_flags import masked_command
from toolkit.live.facts import all_flags, run_facts, server_info
from toolkit.live.generating import Generator, SglangGenerator, VllmGenerator
from toolkit.live.gpu import Nvml
from toolkit.live.http import HttpError, ServerHttp
from toolkit.live.plan import ways
from toolkit.live.probe_client import Probes
from toolkit.live.server import Server
from toolkit.live.sockets import probe_sockets
from toolkit.schema.profile import FoundServer, Way
from toolkit.schema.run import RunInfo


@dataclass(slots=True)
class Target:
    """A server, its facts, and what is open to it. `http` and `probes` are None where there is none."""

    server: Server
    http: ServerHttp | None
    flags: Mapping[str, Any]
    info: RunInfo
    probes: Probes | None
    ways: tuple[Way, ...]
    nvml: Nvml
    gpus: list[int]
    warnings: list[str]

    @property
    def statuses(self) -> Sequence[Mapping[str, Any]]:
        """What each rank's probe said last, in order of rank."""
        return self.probes.statuses if self.probes else ()

    def generator(self) -> Generator:
        """Return what sends prompts; CaptureError where nothing answers."""
        if self.http is None:
            raise CaptureError(
                f"no HTTP endpoint of process {self.server.pid} answers, so no load can be driven; "
                "wait until the server is up, or give --port"
            )
        return VllmGenerator(self.http) if self.server.engine == "vllm" else SglangGenerator(self.http)

    def gpu_names(self) -> list[str]:
        """Return the names of the GPUs that the server uses."""
        names = self.nvml.names() if self.gpus else []
        return [names[at] for at in self.gpus if at < len(names)]

    def found(self) -> FoundServer:
        """Return what is told of the server."""
        return FoundServer(
            pid=self.server.pid,
            engine=self.server.engine,
            engine_version=self.info.engine_version or self.server.version,
            port=self.server.port,
            rank_pids=self.server.rank_pids,
            gpus=tuple(self.gpu_names()),
            command=masked_command(self.server.command),
            log=str(self.server.log) if self.server.log else None,
            settings=self.info,
        )

    def __enter__(self) -> Target:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.probes:
            self.probes.close()


def open_target(pid: int, port: int | None = None) -> Target:
    """Attach to the server behind a process; see `attach` for errors. Nothing is started in it."""
    server = attach(pid)
    if port is not None:
        server = replace(server, port=port)
    http = _answering(server)
    told = server_info(http) if server.engine != "vllm" else {}
    sockets = probe_sockets(server.rank_pids, dict(server.environment))
    warnings: list[str] = []
    probes = None
    if sockets:
        try:
            probes = Probes([sockets[at] for at in server.rank_pids if at in sockets])
        except CaptureError as error:
            warnings.append(str(error))
            sockets = {}
    statuses = probes.statuses if probes else []
    flags = all_flags(server, told, statuses)
    nvml = Nvml()
    gpus = _gpus(server, nvml)
    info = run_facts(server, flags, told, statuses)
    target = Target(
        server=server,
        http=http,
        flags=flags,
        info=info,
        probes=probes,
        ways=ways(server, http, flags, sockets, statuses),
        nvml=nvml,
        gpus=gpus,
        warnings=warnings,
    )
    names = target.gpu_names()
    target.info = replace(info, gpu=info.gpu or (names[0] if names else None))
    return target


def _answering(server: Server) -> ServerHttp | None:
    """Return the endpoint if something answers there; the request has no effect on the server."""
    if server.port is None or server.engine == "pytorch":
        return None
    http = ServerHttp(server)
    try:
        http.text("/v1/models", 3)
    except HttpError as error:
        return http if error.status is not None else None
    return http


def _gpus(server: Server, nvml: Nvml) -> list[int]:
    """Return the GPUs of the ranks: by NVML's lists, else by CUDA_VISIBLE_DEVICES, else all if as many."""
    if not nvml.handles or "cuda" not in server.libraries:
        return []
    seen = nvml.gpus_of(server.rank_pids)
    if seen:
        return seen
    named = server.environment.get("CUDA_VISIBLE_DEVICES", "")
    numbers = [int(word) for word in named.split(",") if word.strip().isdigit()]
    numbers = [at for at in numbers if at < len(nvml.handles)]
    if not numbers and len(nvml.handles) <= len(server.rank_pids):
        numbers = list(range(len(nvml.handles)))
    return numbers[: len(server.rank_pids)]
