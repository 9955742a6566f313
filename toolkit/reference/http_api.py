"""The HTTP side of rank 0, in SGLang's form: /generate, /health, /server_info, /start_profile."""

from __future__ import annotations

import json
import tempfile
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from toolkit.reference.channel import Channel
from toolkit.reference.errors import SettingError
from toolkit.reference.options import Options

_PROFILE_TIMEOUT_S = 300.0


class ReferenceServer(ThreadingHTTPServer):
    """Answers in threads of its own; the engine's loop never waits for a client."""

    daemon_threads = True

    def __init__(self, options: Options, channel: Channel, facts: dict[str, Any]) -> None:
        super().__init__((options.host, options.port), _Exchange)
        self.options, self.channel, self.facts = options, channel, facts

    @property
    def address(self) -> str:
        return f"http://{self.options.host}:{self.server_address[1]}"

    def serve_in_background(self) -> None:
        threading.Thread(target=self.serve_forever, name="http", daemon=True).start()

    def generate(self, body: dict[str, Any]) -> Any:
        """Run one prompt or a list of them, and return one answer or a list."""
        prompts = body.get("input_ids")
        if not isinstance(prompts, list) or not prompts:
            raise SettingError("input_ids must be a list of token ids, or a list of such lists")
        single = not isinstance(prompts[0], list)
        commands = [_request(self.options, ids, body) for ids in ([prompts] if single else prompts)]
        answers = [ticket.answer() for ticket in self.channel.put(commands)]
        return answers[0] if single else answers

    def start_profile(self, body: dict[str, Any]) -> Any:
        """Start the profiler of every rank; answered when rank 0's runs."""
        cycles = body.get("num_steps")
        if cycles is not None and (not isinstance(cycles, int) or cycles < 1):
            raise SettingError(f"num_steps is {cycles!r}; give a count of cycles, or leave it out")
        return self._profile(
            {
                "do": "start_profile",
                "output_dir": str(body.get("output_dir") or tempfile.gettempdir()),
                "name": str(time.time()),
                "num_steps": cycles,
                "activities": list(body.get("activities") or ("CPU", "GPU")),
                "with_stack": bool(body.get("with_stack", True)),
                "record_shapes": bool(body.get("record_shapes", False)),
            }
        )

    def stop_profile(self, body: dict[str, Any]) -> Any:
        """Stop it; answered when rank 0 has written its trace."""
        return self._profile({"do": "stop_profile"})

    def _profile(self, command: dict[str, Any]) -> Any:
        answer = self.channel.put([command])[0].answer(_PROFILE_TIMEOUT_S)
        if "error" in answer:
            raise SettingError(answer["error"])
        return answer

    def server_info(self) -> dict[str, Any]:
        return self.facts


def _request(options: Options, ids: Any, body: dict[str, Any]) -> dict[str, Any]:
    """Return the command for one prompt; SettingError says why it cannot be served."""
    sampling = body.get("sampling_params") or {}
    if not isinstance(sampling, dict):
        raise SettingError("sampling_params must be one object")
    if not isinstance(ids, list) or not ids or not all(type(token) is int for token in ids):
        raise SettingError("a prompt must be a list of at least one token id")
    outside = next((token for token in ids if not 0 <= token < options.target.vocab), None)
    if outside is not None:
        raise SettingError(f"token id {outside} is not in the vocabulary of {options.target.vocab}")
    new_tokens = sampling.get("max_new_tokens", 128)
    if type(new_tokens) is not int or new_tokens < 1:
        raise SettingError(f"max_new_tokens is {new_tokens!r}; give at least 1")
    if len(ids) + new_tokens > options.context:
        raise SettingError(
            f"a prompt of {len(ids)} and {new_tokens} new tokens do not fit in a context of {options.context}"
        )
    if sampling.get("temperature"):
        raise SettingError(
            f"temperature {sampling['temperature']} is not served; this engine decodes greedily"
        )
    return {
        "do": "generate",
        "input_ids": ids,
        "max_new_tokens": new_tokens,
        "ignore_eos": bool(sampling.get("ignore_eos", False)),
    }


class _Exchange(BaseHTTPRequestHandler):
    """One connection. Bodies and answers are JSON."""

    server: ReferenceServer
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if path in ("/health", "/health_generate"):
            self._send(200, {"status": "ok"})
        elif path in ("/server_info", "/get_server_info"):
            self._send(200, self.server.server_info())
        else:
            self._send(404, {"error": f"there is no {path}"})

    def do_POST(self) -> None:
        server = self.server
        calls = {
            "/generate": server.generate,
            "/start_profile": server.start_profile,
            "/stop_profile": server.stop_profile,
        }
        call = calls.get(self.path)
        try:
            body = self._body()
            if call is None:
                self._send(404, {"error": f"there is no {self.path}"})
            else:
                self._send(200, call(body))
        except (SettingError, TimeoutError) as error:
            self._send(400, {"error": str(error)})

    def _body(self) -> dict[str, Any]:
        text = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        try:
            found = json.loads(text or b"{}")
        except ValueError as error:
            raise SettingError(f"the body is not JSON: {error}") from None
        if not isinstance(found, dict):
            raise SettingError("the body must be a JSON object")
        return found

    def _send(self, status: int, answer: Any) -> None:
        text = json.dumps(answer).encode()
        try:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)
        except ConnectionError:  # the client has gone; what it asked for is done all the same
            self.close_connection = True

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing: a line for each request would hide the engine's."""
