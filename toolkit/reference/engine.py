"""The loop of one rank: commands, prompts, cycles, answers. All ranks run it in step."""

from __future__ import annotations

import traceback
from pathlib import Path
from typing import Any

import torch

from toolkit.reference.batch import Batch, Request
from toolkit.reference.channel import Channel, Command
from toolkit.reference.cycle import Cycle
from toolkit.reference.decoder import aligned
from toolkit.reference.log_lines import CycleLog, write_line
from toolkit.reference.model import Model
from toolkit.reference.options import Options
from toolkit.reference.tracing import Tracer


class Engine:
    """Serves requests with continuous batching: free rows are filled before every cycle."""

    def __init__(
        self, options: Options, tp_rank: int, model: Model, cycle: Cycle, tracer: Tracer, channel: Channel
    ) -> None:
        self.options, self.tp_rank = options, tp_rank
        self.cycle, self.batch = cycle, Batch(options.max_batch)
        self._model, self._tracer, self._channel = model, tracer, channel
        self._log = CycleLog(options) if tp_rank == 0 else None

    def prepare(self) -> None:
        """Capture the graphs, where there are any: a plugin knows the engine by now."""
        if self.options.cuda_graphs:
            self._model.capture()

    def run(self) -> None:
        """Serve until told to stop. An exception ends the rank, and its launcher the server."""
        while self.step():
            pass

    def step(self) -> bool:
        """Carry out commands, then run one cycle if there is work; False once told to stop."""
        idle = not self.batch.busy
        for command in self._channel.receive(wait=idle):
            if command["do"] == "stop":
                return False
            self._carry_out(command)
        if idle and self._log:
            self._log.wake()
        self._admit()
        if self.batch.running:
            result = self.cycle.run(self.batch.contexts())
            self.batch.commit(result)
            self._retire()
            self._tracer.cycle_done()
            if self._log:
                self._log.cycle(result, len(self.batch.waiting))
        return True

    def _carry_out(self, command: Command) -> None:
        if command["do"] == "generate":
            self.batch.waiting.append(
                Request(
                    number=command["number"],
                    input_ids=command["input_ids"],
                    max_new_tokens=command["max_new_tokens"],
                    stop_at=None if command["ignore_eos"] else self.options.target.eos,
                    num_steps=self.options.num_steps,
                )
            )
            return
        try:
            answer = self._profile(command)
        except Exception as error:  # a profile that fails must not end the server
            write_line(f"profile: {traceback.format_exc()}", self.tp_rank)
            answer = {"error": str(error)}
        self._channel.settle(command["number"], answer)

    def _profile(self, command: Command) -> dict[str, Any]:
        if command["do"] == "stop_profile":
            return {"file": str(self._tracer.stop() or "")}
        self._tracer.start(
            Path(command["output_dir"]),
            command["name"],
            command["num_steps"],
            command["activities"],
            command["with_stack"],
            command["record_shapes"],
        )
        return {}

    def _admit(self) -> None:
        before = len(self.batch.running)
        admitted = self.batch.admit()
        if not admitted:
            return
        for row, request in enumerate(admitted, before):
            self._prefill(row, request)
        if self._log:
            self._log.prefill(admitted, before, len(self.batch.waiting))
        self._retire()  # a request for one token is done

    def _prefill(self, row: int, request: Request) -> None:
        state = self._model.passes.state
        tokens = torch.tensor(request.input_ids, device=state.root.device)
        with self._tracer.span("step[EXTEND bs=1]"):
            self._model.passes.prefill(row, tokens, aligned(len(tokens)))
        request.add((int(state.root[row]),))

    def _retire(self) -> None:
        finished, moves = self.batch.retire()
        for row, freed in moves:
            if row != freed:
                self._model.move_row(freed, row)
            self._model.passes.state.clear_row(freed)
        for request in finished:
            self._channel.settle(request.number, request.answer())
