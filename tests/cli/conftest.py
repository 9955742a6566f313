"""Stand-in servers, and `toolkit inspect` as a function, for these tests."""

from tests.cli.inspecting import inspect, log
from tests.live.stand_ins import start_server

__all__ = ["inspect", "log", "start_server"]
