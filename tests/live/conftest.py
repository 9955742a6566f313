"""Stand-in servers for these tests."""

from tests.live.stand_ins import start_server

__all__ = ["start_server"]
