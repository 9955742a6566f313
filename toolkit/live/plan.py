"""The ways of looking at a server, best first: which can be used, why not, and what each would need."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from toolkit.live.command_flags import masked_command
from toolkit.live.http import ServerHttp
from toolkit.live.on_demand import daemon_runs
from toolkit.live.server import NAMES, Server
from toolkit.live.sockets import ProbeSocket
from toolkit.probe.where import site_folder
from toolkit.probe.wire_names import MODE_VARIABLE, STARTUP_VARIABLE
from toolkit.schema.profile import Way

PROBE, ENGINE_PROFILER, LOG, ON_DEMAND = "probe", "engine profiler", "log and metrics", "on-demand trace"
_STARTUP_FILE_VERSIONS = ("0.5.9", "0.5.10")  # SGLang without plugins
_FIRST_PLUGINS = {"sglang": (0, 5, 11), "vllm": (0, 22, 0)}


def ways(
    server: Server,
    http: ServerHttp | None,
    flags: Mapping[str, Any],
    sockets: Mapping[int, ProbeSocket],
    statuses: Sequence[Mapping[str, Any]],
) -> tuple[Way, ...]:
    """Return every way in order of worth; nothing is started and no request changes the server."""
    return (
        _probe(server, sockets, statuses),
        _engine_profiler(server, http, flags),
        _log(server, http),
        _on_demand(server),
    )


def best(found: Sequence[Way]) -> Way | None:
    """Return the first way that can be used."""
    return next((way for way in found if way.usable), None)


def why_not_better(found: Sequence[Way], used: str) -> str | None:
    """Return why the ways above the one used cannot be used, None if it is the best."""
    above = [way for way in found[: [way.name for way in found].index(used)] if not way.usable]
    return "; ".join(f"{way.name}: {way.why}" for way in above) or None


def _probe(server: Server, sockets: Mapping[int, ProbeSocket], statuses: Sequence[Mapping[str, Any]]) -> Way:
    missing = [pid for pid in server.rank_pids if pid not in sockets]
    if server.engine == "pytorch":
        return Way(name=PROBE, usable=False, why="the probe knows SGLang, vLLM and the reference engine only")
    if not sockets or missing:
        return Way(name=PROBE, usable=False, why=_why_no_probe(server, missing), needs=restart_line(server))
    broken = sorted({f"{name} {said}" for status in statuses for name, said in _lost(status)})
    why = f"answers on {len(sockets)} of {len(server.rank_pids)} ranks"
    if not statuses or all(status.get("mode") == "off" for status in statuses):
        return Way(name=PROBE, usable=False, why="it is switched off", needs=f"{MODE_VARIABLE}=steps")
    if any(name == "cycle" for status in statuses for name, _ in _lost(status)):
        return Way(
            name=PROBE, usable=False, why=f"it does not see this server's cycles ({'; '.join(broken)})"
        )
    outside = sorted(
        {said for status in statuses if (said := str(status.get("in_graph"))).startswith(("unav", "off"))}
    )
    notes = ([f"not seen: {'; '.join(broken)}"] if broken else []) + [
        f"inside graphs: {said}" for said in outside
    ]
    return Way(name=PROBE, usable=True, why="; ".join([why, *notes]))


def _lost(status: Mapping[str, Any]) -> list[tuple[str, str]]:
    hooks = status.get("hooks") or {}
    return [
        (str(name), str(said)) for name, said in hooks.items() if str(said).startswith(("missing", "failed"))
    ]


def _why_no_probe(server: Server, missing: Sequence[int]) -> str:
    if len(missing) < len(server.rank_pids):
        return f"ranks in processes {', '.join(map(str, missing))} have none, the others have"
    mode = server.environment.get(MODE_VARIABLE, "").strip().lower()
    if mode == "off":
        return f"it was switched off at the start ({MODE_VARIABLE}=off)"
    if mode not in ("", "stages", "steps"):
        return f"{MODE_VARIABLE}={mode[:20]} is none of off, stages and steps, so it hooked nothing"
    on_path = any("toolkit_probe" in entry or entry.endswith("probe/site") for entry in _python_path(server))
    if not on_path:
        return f"{NAMES[server.engine]} process {server.pid} was started without it"
    return "it is on the server's PYTHONPATH but no rank has opened its socket; see the server's log for why"


def _python_path(server: Server) -> list[str]:
    return server.environment.get("PYTHONPATH", "").split(":")


def restart_line(server: Server) -> str:
    """Return the command that starts the same server with the probe; secrets are masked."""
    folders = [str(site_folder()), *(entry for entry in _python_path(server) if entry)]
    variables = [f"PYTHONPATH={shlex.quote(':'.join(dict.fromkeys(folders)))}"]
    if server.environment.get(MODE_VARIABLE, "").strip().lower() not in ("", "stages", "steps"):
        variables.append(f"{MODE_VARIABLE}=")  # a shell that has it set would hand it on
    if server.engine == "sglang" and (server.version or "").startswith(_STARTUP_FILE_VERSIONS):
        variables.append(f"{STARTUP_VARIABLE}=1")
    return " ".join((*variables, masked_command(server.command)))


def _engine_profiler(server: Server, http: ServerHttp | None, flags: Mapping[str, Any]) -> Way:
    """SGLang and the reference engine always serve it, vLLM only when it was started to."""
    name = ENGINE_PROFILER
    if server.engine == "pytorch":
        return Way(name=name, usable=False, why="a PyTorch process serves no /start_profile")
    if http is None:
        return Way(name=name, usable=False, why=_no_http(server))
    if server.engine == "vllm" and not profiler_folder(server, flags):
        needs = "--profiler-config.profiler=torch --profiler-config.torch_profiler_dir=DIR"
        needs += " --profiler-config.torch_profiler_with_stack=false"
        return Way(name=name, usable=False, why="vLLM was started without a profiler", needs=needs)
    return Way(
        name=name, usable=True, why=f"POST /start_profile on port {http.port}: kernels of a few cycles"
    )


def profiler_folder(server: Server, flags: Mapping[str, Any]) -> str | None:
    """Return the folder into which vLLM's profiler writes, as the server names it."""
    config = flags.get("profiler_config")
    found = config.get("torch_profiler_dir") if isinstance(config, dict) else None
    found = found or server.environment.get("VLLM_TORCH_PROFILER_DIR")
    return found if isinstance(found, str) and found else None


def _no_http(server: Server) -> str:
    if server.port is None and len(server.listening) > 1:
        ports = ", ".join(map(str, server.listening[:6]))
        return f"which of the ports {ports} is the HTTP endpoint is not known; give --port"
    if server.port is None:
        return "the server listens on no port"
    return f"nothing answers on port {server.port} yet; wait until the server is up"


def _log(server: Server, http: ServerHttp | None) -> Way:
    if server.engine == "pytorch":
        return Way(name=LOG, usable=False, why="a PyTorch process prints no decode statistics")
    if server.log:
        return Way(
            name=LOG, usable=True, why=f"the server prints to {server.log.name}: cycle means, no phases"
        )
    if http:
        return Way(
            name=LOG, usable=True, why="counters over HTTP: throughput and acceptance of a driven load only"
        )
    return Way(name=LOG, usable=False, why=f"{_no_http(server)}, and its output goes to no file")


def _on_demand(server: Server) -> Way:
    if server.environment.get("KINETO_USE_DAEMON", "0") not in ("", "0"):
        if daemon_runs(server.pid):
            why = "a daemon is there already, and hands the process its requests"
            return Way(name=ON_DEMAND, usable=False, why=why, needs=f"dyno gputrace --pids {server.pid}")
        return Way(
            name=ON_DEMAND, usable=True, why="the process takes traces on demand: kernels of half a second"
        )
    return Way(
        name=ON_DEMAND,
        usable=False,
        why="the process was started without KINETO_USE_DAEMON",
        needs=f"KINETO_USE_DAEMON=1 {masked_command(server.command)}",
    )
