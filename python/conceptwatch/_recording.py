"""Files in place of a sidecar: what a job logs is recorded, and `conceptwatch replay` scores it later."""

from __future__ import annotations

import contextlib
import itertools
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ._encode import varint
from ._protocol import messages

# Marks an address that is a folder.
SCHEME = "record:"
SUFFIX = ".cwrec"

_INGEST = bytes([messages.Recorded.INGEST_FIELD_NUMBER << 3 | 2])


class Recorder:
    """Answers a job's calls to the service by writing to a folder, one file for each run."""

    def __init__(self, folder: str) -> None:
        self._folder = Path(folder)
        self._files: dict[str, _File] = {}  # by the name of the run
        self._names: dict[tuple[str, str], str] = {}  # in use, by the declared name and the job

    def start_run(self, request: Any, timeout: float | None = None) -> Any:
        declared = request.run.name
        name = self._names.get((declared, request.job))
        if name is None:
            name = declared if request.resume or not request.job else self._free(declared)
            self._names[declared, request.job] = name
        if name not in self._files:
            self._folder.mkdir(parents=True, exist_ok=True)
            readable = re.sub(r"[^\w.-]+", "_", name)[:80]
            self._files[name] = _File(self._folder / f"{readable}-{request.client[:12]}{SUFFIX}")
        start = messages.StartRunRequest()
        start.CopyFrom(request)
        start.run.name = name  # as in the messages that follow
        self._files[name].append(messages.Recorded(start=start).SerializeToString())
        return messages.StartRunResponse(takes_joined_ends=True, run=name)

    def _free(self, name: str) -> str:
        """The name, or the first of name-2, name-3, ... that no other job of this process has, as in a sidecar."""
        numbered = (f"{name}-{number}" for number in itertools.count(2))
        return next(free for free in itertools.chain([name], numbered) if free not in self._names.values())

    def ingest(self, requests: Iterator[bytes]) -> _Answers:
        return _Answers(self._take(requests))

    def _take(self, requests: Iterator[bytes]) -> Iterator[Any]:
        accepted = messages.IngestResponse.OUTCOME_ACCEPTED
        rows = 0
        for request in requests:
            message = messages.IngestRequest.FromString(request)
            end, chunk = message.end_pass, message.chunk
            alone = message.HasField("end_pass")
            self._files[end.run if alone else chunk.run].append(_INGEST + varint(len(request)), request)
            if alone:
                yield messages.IngestResponse(sequence=end.sequence, outcome=accepted)
                continue
            rows += chunk.tensors[0].shape[0] if chunk.tensors else 0
            if chunk.last:
                answer = messages.IngestResponse(sequence=chunk.sequence, outcome=accepted, rows=rows)
                if chunk.HasField("end_pass"):
                    answer.end_pass.sequence = chunk.end_pass.sequence
                    answer.end_pass.outcome = accepted
                rows = 0
                yield answer

    def finish_run(self, request: Any, timeout: float | None = None) -> Any:
        self._files[request.run].append(messages.Recorded(finish=request).SerializeToString())
        return messages.FinishRunResponse()

    def get_scores(self, request: Any, timeout: float | None = None) -> Any:
        """Empty: there are no scores before the replay."""
        return messages.GetScoresResponse()

    def get_diagnosis(self, request: Any, timeout: float | None = None) -> Any:
        return None

    def get_advice(self, request: Any, timeout: float | None = None) -> Any:
        return messages.GetAdviceResponse()

    def close(self) -> None:
        for file in self._files.values():
            file.close()
        self._files.clear()


class _Answers:
    """The interface of an Ingest call: its answers, and a way to end it."""

    def __init__(self, answers: Iterator[Any]) -> None:
        self._answers = answers

    def __iter__(self) -> Iterator[Any]:
        return self._answers

    def cancel(self) -> None:
        """The requests end by themselves."""


class _File:
    """Messages, each preceded by its length. One that cannot be written whole is removed, so that a retry is safe."""

    def __init__(self, path: Path) -> None:
        # Unbuffered: a killed job loses nothing that was acknowledged, and a forked child writes nothing.
        self._file = open(path, "ab", buffering=0)  # noqa: SIM115
        self._end = self._file.tell()

    def append(self, *parts: bytes) -> None:
        try:
            for part in (varint(sum(map(len, parts))), *parts):
                left = memoryview(part)
                while left:
                    left = left[self._file.write(left) or 0 :]
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(self._file.fileno(), self._end)
            raise
        self._end = self._file.tell()

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._file.close()
