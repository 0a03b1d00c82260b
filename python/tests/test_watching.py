"""`conceptwatch watch` on a terminal, against a sidecar that says what a test scripts."""

from __future__ import annotations

import fcntl
import os
import pty
import queue
import signal
import struct
import subprocess
import termios
import threading
from collections.abc import Callable, Iterator
from concurrent import futures
from typing import Any

import grpc
import pytest

from conceptwatch._protocol import SERVICE, messages
from conftest import package, wait_for
from real_sidecar import binary
from sidecar import unary

pyte = package("pyte")

SCORE = "ctl_conditional"
REASON = "the intervention drop is above its limit, " * 3
HEIGHT = 24
END = b"\x1b[?1049l"  # leaves the terminal's other screen


class Scripted:
    """Answers the calls of `watch` about one run."""

    def __init__(self) -> None:
        self.points: list[Any] = []  # of the series
        self.events: queue.Queue[Any] = queue.Queue()
        self.state = messages.RUN_STATE_TRAINING
        self.state_reason = ""
        self.server = grpc.server(futures.ThreadPoolExecutor(4), options=[("grpc.so_reuseport", 0)])
        handlers = {
            "ListRuns": unary(self._runs, messages.ListRunsRequest),
            "GetSeries": unary(self._series, messages.GetSeriesRequest),
            "GetDiagnosis": unary(self._diagnosis, messages.GetDiagnosisRequest),
        }
        handlers["Watch"] = grpc.unary_stream_rpc_method_handler(
            self._watch,
            request_deserializer=messages.WatchRequest.FromString,
            response_serializer=lambda m: m.SerializeToString(),
        )
        self.server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
        self.address = f"127.0.0.1:{self.server.add_insecure_port('127.0.0.1:0')}"
        self.server.start()

    def _runs(self, request: Any, context: Any) -> Any:
        status = messages.RunStatus(run=messages.Run(name="birds"), state=self.state, state_reason=self.state_reason)
        return messages.ListRunsResponse(runs=[status], total=1)

    def _series(self, request: Any, context: Any) -> Any:
        return messages.GetSeriesResponse(points=[one for one in self.points if one.step >= request.first_step])

    def _diagnosis(self, request: Any, context: Any) -> Any:
        verdict = messages.Verdict(state=messages.VERDICT_STATE_LEAKING, since_step=2, reason=REASON)
        return messages.GetDiagnosisResponse(verdict=verdict)

    def _watch(self, request: Any, context: Any) -> Iterator[Any]:
        context.send_initial_metadata(())  # else only with the first event
        while (event := self.events.get()) is not None:
            yield event

    def evaluate(self, step: int, value: float) -> None:
        """Adds a point, which an event announces."""
        self.points.append(series_point(step, value))
        self.points.sort(key=lambda one: (one.step, one.superseded))
        self.announce(step)

    def announce(self, step: int) -> None:
        self.events.put(messages.WatchResponse(point=messages.Point(run="birds", split="val", step=step)))


def series_point(step: int, value: float, superseded: bool = False) -> Any:
    return messages.SeriesPoint(
        step=step, epoch=step, value=value, standard_error=0.01, rows=500, superseded=superseded
    )


class Terminal:
    """A terminal in which `watch` runs."""

    def __init__(self, columns: int, address: str) -> None:
        self._own, other = pty.openpty()
        self.resize(columns)
        self.attributes = termios.tcgetattr(other)
        self._other = other
        command = [binary(), "watch", "birds", "--address", address, "--scores", SCORE]
        self.process = subprocess.Popen(
            command,
            stdin=other,
            stdout=other,
            stderr=other,
            start_new_session=True,
            env={**os.environ, "TERM": "xterm-256color"},
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509
        )
        self._shown = b""
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def resize(self, columns: int) -> None:
        self.columns = columns
        fcntl.ioctl(self._own, termios.TIOCSWINSZ, struct.pack("HHHH", HEIGHT, columns, 0, 0))

    def _read(self) -> None:
        try:
            while read := os.read(self._own, 65536):
                self._shown += read
        except OSError:
            pass  # nobody has the other end open any more

    def rows(self) -> list[str]:
        """The rows of the screen that have text."""
        screen = pyte.Screen(self.columns, HEIGHT)
        pyte.ByteStream(screen).feed(self._shown.partition(END)[0])
        return [row.rstrip() for row in screen.display if row.strip()]

    def wait_for(self, *texts: str) -> list[str]:
        """Waits for a frame with all of these texts: `watch` fetches the head and the points separately."""

        def shown() -> list[str]:
            rows = self.rows()
            return rows if all(any(text in row for row in rows) for text in texts) else []

        return wait_for(shown)

    def press(self, key: bytes) -> None:
        os.write(self._own, key)

    def end(self) -> str:
        """Waits for the end; what is left on the usual screen."""
        assert self.process.wait(60) == 0
        assert termios.tcgetattr(self._other) == self.attributes
        self.close()
        return self._shown.rpartition(END)[2].decode()

    def close(self) -> None:
        if self._reader.is_alive():
            os.close(self._other)
            self._reader.join()
            os.close(self._own)


@pytest.fixture
def scripted() -> Iterator[Scripted]:
    sidecar = Scripted()
    yield sidecar
    sidecar.events.put(None)
    sidecar.server.stop(None).wait()


@pytest.fixture
def watch(scripted: Scripted) -> Iterator[Callable[[int], Terminal]]:
    started: list[Terminal] = []

    def start(columns: int) -> Terminal:
        started.append(Terminal(columns, scripted.address))
        return started[-1]

    yield start
    for terminal in started:
        if terminal.process.poll() is None:
            terminal.process.kill()
            terminal.process.wait()
        terminal.close()


@pytest.mark.parametrize("columns", [80, 200])
def test_frames_replace_each_other(scripted: Scripted, watch: Callable[[int], Terminal], columns: int) -> None:
    terminal = watch(columns)
    for step in range(1, 41):
        scripted.evaluate(step, 0.01 * step)
    change = messages.AlertChange(
        rule="leaking", run="birds", state=messages.ALERT_STATE_FIRING, evidence="high " * 30, step=40
    )
    scripted.events.put(messages.WatchResponse(alert=change))
    rows = terminal.wait_for("FIRING", "step 40", "0.4000")
    assert len(rows) == 5
    assert rows[1] == "birds  training  epoch 40, step 40"
    assert rows[2].startswith("  leaking since step 2: the intervention drop")
    assert rows[3].startswith(f"  {SCORE}  0.4000 ± 0.0196    limit 0.16  ")
    assert rows[3].endswith("█")
    assert rows[4].startswith("FIRING  birds: leaking: high high")
    cut = [row for row in rows if row.endswith("…")]
    assert (cut == [rows[2], rows[4]]) == (columns == 80)
    terminal.press(b"q")
    left = terminal.end()
    assert [row.rstrip() for row in left.splitlines() if row.strip()][:5] == rows


def test_a_late_score_is_not_left_behind(scripted: Scripted, watch: Callable[[int], Terminal]) -> None:
    for step in (1, 2, 4):
        scripted.points.append(series_point(step, 0.1))
    terminal = watch(80)
    terminal.wait_for("epoch 4, step 4")
    # The score of step 3 joins its point after step 4 was evaluated.
    scripted.evaluate(3, 0.2)
    scripted.evaluate(5, 0.1)
    rows = terminal.wait_for("epoch 5, step 5")
    assert not any("left behind" in row for row in rows)
    # The run returns to step 2.
    scripted.points = [
        series_point(1, 0.1),
        series_point(2, 0.3),
        *(series_point(at, 0.1, True) for at in (2, 3, 4, 5)),
    ]
    scripted.announce(2)
    rows = terminal.wait_for("epoch 2, step 2", "left behind: 4 up to step 5")
    assert rows[1].endswith("step 2")
    assert rows[4] == "  left behind: 4 up to step 5"


def test_a_resize_draws_the_whole_width(scripted: Scripted, watch: Callable[[int], Terminal]) -> None:
    scripted.evaluate(1, 0.1)
    terminal = watch(80)
    assert terminal.wait_for("leaking since")[2].endswith("…")
    terminal.resize(200)
    assert terminal.wait_for(REASON.strip())[1].startswith("birds  training")
    terminal.resize(60)
    wait_for(lambda: "".join(terminal.rows()[2:3]).endswith("…"))
    assert max(map(len, terminal.rows())) <= 60


@pytest.mark.parametrize("way", ["q", "ctrl-c", "SIGTERM", "SIGINT", "end"])
def test_the_terminal_is_as_before_and_has_the_last_frame(
    scripted: Scripted, watch: Callable[[int], Terminal], way: str
) -> None:
    scripted.evaluate(1, 0.1)
    terminal = watch(80)
    terminal.wait_for("epoch 1, step 1")
    match way:
        case "q":
            terminal.press(b"q")
        case "ctrl-c":
            terminal.press(b"\x03")
        case "end":
            scripted.events.put(None)
        case _:
            terminal.process.send_signal(signal.Signals[way])
    left = terminal.end()
    assert "birds  training  epoch 1, step 1\r\n" in left
    assert "\x1b[?1049h" not in left


def test_the_state_of_a_run_is_followed(scripted: Scripted, watch: Callable[[int], Terminal]) -> None:
    scripted.evaluate(1, 0.1)
    terminal = watch(80)
    terminal.wait_for("birds  training")
    scripted.state, scripted.state_reason = messages.RUN_STATE_FAILED, "ValueError: shapes differ"
    terminal.wait_for("birds  failed: ValueError: shapes differ  epoch 1, step 1")
