"""The client in processes that fork, end early or race each other."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from conceptwatch._sidecar import find_binary
from conftest import python, wait_for
from real_sidecar import free_ports
from sidecar import Sidecar

# The preamble of each program of `of_run`.
BEGIN = """
import os, sys, threading, time, numpy as np, conceptwatch
run = conceptwatch.init("run", concepts=3, address=sys.argv[1], spawn=False)
ones = np.ones((10, 3), np.float32)
"""


def program(text: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return python("-c", textwrap.dedent(text), *arguments, **environment)


def of_run(text: str, address: str) -> subprocess.CompletedProcess[str]:
    return program(BEGIN + textwrap.dedent(text), address)


def test_what_a_job_did_not_finish_is_sent_at_its_end(sidecar: Sidecar) -> None:
    text = """
    with run.evaluation("val", step=1) as p:
        for _ in range(50):
            p.log(concept_activations=np.ones((1000, 3), np.float32))
    """
    done = of_run(text, sidecar.serve())
    assert (done.returncode, done.stderr) == (0, "")
    assert len(sidecar.received) == 50
    assert len(sidecar.ends) == 1
    assert sidecar.finished == ["run"]


def test_a_job_without_a_sidecar_ends(tmp_path: Path) -> None:
    text = """
    conceptwatch._run.EXIT_TIMEOUT = 0.5
    with run.evaluation("val", step=1) as p:
        p.log(concept_activations=ones)
    """
    done = of_run(text, "127.0.0.1:1")
    assert done.returncode == 0
    assert "Traceback" not in done.stderr
    assert done.stderr.count("the connection to the sidecar") == 1
    left = (
        "1 evaluation was not settled: val at step 1. No sidecar ever answered at 127.0.0.1:1, so nothing of it is kept"
    )
    assert done.stderr.count(left) == 1


def test_a_job_whose_connection_breaks_at_its_end_ends(sidecar: Sidecar) -> None:
    text = """
    import atexit
    conceptwatch._run.EXIT_TIMEOUT = 2.0
    run.log(step=1, concept_activations=ones)
    while run._link.outstanding:
        time.sleep(0.01)

    @atexit.register
    def refuse_threads_and_break():  # as Python 3.12, which starts no thread at exit
        def refuse(self):
            raise RuntimeError("can't create new thread at interpreter shutdown")
        threading.Thread.start = refuse
        run.log(step=2, concept_activations=ones)
        run._sender._call.cancel()
    """
    done = of_run(text, sidecar.serve())
    assert done.returncode == 0
    assert "finished while 1 message was not sent" in done.stderr


@pytest.mark.parametrize("refused", ["", "conceptwatch", "Thread-"])
def test_a_job_that_may_start_no_thread_goes_on_and_sends_once_it_may(sidecar: Sidecar, refused: str) -> None:
    done = program(
        """
        import sys, threading, numpy as np, conceptwatch
        start = threading.Thread.start
        def refuse(thread):
            if thread.name.startswith(sys.argv[2]):
                raise RuntimeError("can't start new thread")
            start(thread)
        threading.Thread.start = refuse
        run = conceptwatch.init("run", concepts=3, address=sys.argv[1], spawn=False)
        for step in (1, 2):
            with run.evaluation("val", step=step) as p:
                p.log(concept_activations=np.ones((10, 3), np.float32))
            assert run.should_stop(step=step, timeout=1.0) is False
            threading.Thread.start = start
        assert run.finish()
        """,
        sidecar.serve(), refused,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("can't start new thread") == 1, done.stderr
    assert [end.step for end in sidecar.ends] == [1, 2]


def test_the_client_works_without_torch(sidecar: Sidecar) -> None:
    done = program(
        """
        import sys
        sys.modules["torch"] = None  # an import of torch fails
        import numpy as np, conceptwatch
        run = conceptwatch.init("run", concepts=3, address=sys.argv[1], spawn=False)
        run.log(step=1, concept_activations=np.ones((10, 3), np.float32))
        assert run.finish()
        """,
        sidecar.serve(),
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert len(sidecar.received) == 1


def test_nothing_is_imported_before_it_is_asked_for() -> None:
    done = program(
        """
        import sys, conceptwatch
        conceptwatch.init("run", concepts=3, mode="disabled")
        frameworks = {"torch", "lightning", "pytorch_lightning", "keras", "transformers", "jax", "pandas", "polars"}
        loggers = {"wandb", "tensorboard", "mlflow", "trackio", "aim", "optuna", "matplotlib"}
        print(sorted((frameworks | loggers) & sys.modules.keys()))
        """
    )
    assert (done.stdout, done.stderr) == ("[]\n", "")


@pytest.mark.parametrize(
    ("module", "missing", "needs"),
    [
        ("keras", "keras", "the package keras, which"),
        ("optuna", "optuna", "the package optuna, which"),
        ("transformers", "transformers", "the packages transformers and torch, which"),
        ("transformers", "torch.distributed", "the packages transformers and torch, which"),
    ],
)
def test_a_package_that_a_module_lacks_is_named(module: str, missing: str, needs: str) -> None:
    done = program(f"import sys; sys.modules[{missing!r}] = None; import conceptwatch.{module}")
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith(f"ImportError: conceptwatch.{module} needs {needs} cannot be imported (")


def test_a_forked_child_sends_nothing_of_its_parents(sidecar: Sidecar) -> None:
    text = """
    with run.evaluation("val", step=1) as p:
        for i in range(40):
            p.log(concept_activations=np.full((500, 3), i, np.float32))
            if i % 8 == 0 and os.fork() == 0:
                sys.exit(0)  # as a normal end, with all that runs at it
    for _ in range(5):
        assert os.wait()[1] == 0
    assert run.finish()
    """
    done = of_run(text, sidecar.serve())
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    assert len(sidecar.received) == 40
    assert len({received.head.client for received in sidecar.received}) == 1
    assert (len(sidecar.ends), sidecar.finished, len(sidecar.starts)) == (1, ["run"], 1)


def test_a_child_forked_from_the_connected_process_counts_what_it_cannot_send(sidecar: Sidecar) -> None:
    text = """
    run.log(step=1, concept_activations=ones)
    assert run._sender.flush(run._link, 10)
    child = os.fork()
    if child == 0:
        run.log(step=2, concept_activations=ones)
        with run.evaluation("val", step=2) as p:
            p.log(concept_activations=ones)
        assert p.scores(timeout=60) is None
        assert run.should_stop(step=2, timeout=60) is False
        assert run.stats.batches_dropped == {"forked": 2}
        assert run.finish() is False
        sys.exit(0)
    run.log(step=3, concept_activations=ones)
    assert os.waitpid(child, 0)[1] == 0
    assert run.finish()
    """
    done = of_run(text, sidecar.serve())
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("what a forked process logs is dropped") == 1
    assert [received.head.step for received in sidecar.received] == [1, 3]
    assert len(sidecar.finished) == 1


def test_a_run_that_begins_in_a_child_of_the_connected_process_is_not_called_settled(sidecar: Sidecar) -> None:
    text = """
    run.log(step=1, concept_activations=ones)
    assert run.finish()
    if os.fork() == 0:
        of_steps = conceptwatch.init("steps", concepts=3, address=sys.argv[1], spawn=False)
        of_steps.log(step=1, concept_activations=ones)
        assert of_steps.finish() is False
        evaluated = conceptwatch.init("passes", concepts=3, address=sys.argv[1], spawn=False)
        for step in (1, 2):
            with evaluated.evaluation("val", step=step) as p:
                p.log(concept_activations=ones)
        assert evaluated.finish() is False
        assert (evaluated.stats.passes_unsettled, evaluated.stats.ends_dropped) == (2, 2)
        sys.exit(0)
    assert os.wait()[1] == 0
    """
    done = of_run(text, sidecar.serve())
    assert done.returncode == 0, done.stderr
    assert "run 'steps': finished while 1 message was not sent" in done.stderr
    assert "run 'passes': finished while 2 evaluations were not settled: val at step 1, val at step 2. " in done.stderr
    assert "No sidecar ever answered" not in done.stderr
    assert sidecar.finished == ["run"]


def test_children_forked_before_the_first_connection_are_clients_of_their_own(sidecar: Sidecar) -> None:
    done = program(
        """
        import os, sys, numpy as np, conceptwatch
        for rank in range(2):
            if os.fork() == 0:
                run = conceptwatch.init("run", concepts=3, address=sys.argv[1], spawn=False, rank=rank, world_size=2)
                with run.evaluation("val", step=1) as p:
                    p.log(concept_activations=np.ones((10, 3), np.float32))
                sys.exit(0)
        for _ in range(2):
            assert os.wait()[1] == 0
        """,
        sidecar.serve(),
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert len({received.head.client for received in sidecar.received}) == 2
    assert sorted(end.rank for end in sidecar.ends) == [0, 1]


def test_data_loader_workers_neither_hang_nor_send(sidecar: Sidecar, torch: Any) -> None:
    text = """
    import torch
    data = torch.utils.data.TensorDataset(torch.rand(400, 3), torch.arange(400))
    for epoch in range(2):
        loader = torch.utils.data.DataLoader(data, batch_size=50, num_workers=2)
        with run.evaluation("val", step=epoch) as p:
            for x, i in loader:
                p.log(concept_activations=x, sample_ids=i)
    assert run.finish()
    """
    done = of_run(text, sidecar.serve())
    assert done.returncode == 0, done.stderr
    assert len(sidecar.received) == 16
    assert len({received.head.client for received in sidecar.received}) == 1
    assert [end.step for end in sidecar.ends] == [0, 1]


STAND_IN = """\
#!{python}
import os, socket, sys
sys.path[:0] = {paths!r}
open({log!r}, "a").write(" ".join(sys.argv[1:]) + "\\n")
from sidecar import Sidecar
sidecar = Sidecar()
try:
    found = sidecar.serve(sys.argv[sys.argv.index("--grpc-address") + 1])
except RuntimeError:
    sys.exit(1)  # another one has the port
ports = sys.argv[sys.argv.index("--port-file") + 1]
with open(ports + "~", "x") as file:
    file.write(found + " 127.0.0.1:1\\n")
os.rename(ports + "~", ports)
sys.stdin.buffer.read()
open({log!r}, "a").write("ended after %d batches\\n" % len(sidecar.received))
sidecar.close()
"""


@pytest.fixture
def stand_in(tmp_path: Path) -> tuple[Path, Path]:
    """A program that stands in for the sidecar's binary, and the file it writes its arguments to."""
    binary, log = tmp_path / "conceptwatch", tmp_path / "log"
    paths = [str(Path(__file__).parents[1]), str(Path(__file__).parent), *sys.path]
    binary.write_text(STAND_IN.format(python=sys.executable, paths=paths, log=str(log)))
    binary.chmod(0o755)
    return binary, log


JOB = """
import sys, numpy as np, conceptwatch
run = conceptwatch.init("run", concepts=3, address=sys.argv[1], rank=int(sys.argv[2]), world_size=2)
run.log(step=1, concept_activations=np.ones((10, 3), np.float32))
assert run.finish()
"""


def test_at_port_0_the_runs_of_a_process_share_a_sidecar_of_their_own(stand_in: tuple[Path, Path]) -> None:
    binary, log = stand_in
    text = """
    import numpy as np, conceptwatch
    runs = [conceptwatch.init(name, concepts=3, address="127.0.0.1:0") for name in "ab"]
    assert runs[0].address == runs[1].address != "127.0.0.1:0", runs[0].address
    for run in runs:
        run.log(step=1, concept_activations=np.ones((10, 3), np.float32))
        assert run.finish()
    """
    done = program(text, CONCEPTWATCH_BINARY=str(binary))
    assert done.returncode == 0, done.stderr
    wait_for(lambda: "ended" in log.read_text())
    assert log.read_text().count("serve --grpc-address 127.0.0.1:0 --http-address 127.0.0.1:0") == 1
    assert "ended after 2 batches" in log.read_text()


def test_ranks_that_race_to_start_a_sidecar_end_with_one(stand_in: tuple[Path, Path]) -> None:
    binary, log = stand_in
    text = """
    import multiprocessing, sys, numpy as np, conceptwatch
    def work(rank):
        run = conceptwatch.init("run", concepts=3, address=sys.argv[1], rank=rank, world_size=4)
        run.log(step=1, concept_activations=np.ones((10, 3), np.float32))
        sent = run.finish()
        ready.wait()  # the sidecar lives as long as the rank that started it
        sys.exit(0 if sent else 3)
    context = multiprocessing.get_context("fork")
    ready = context.Barrier(4)
    ranks = [context.Process(target=work, args=(rank,)) for rank in range(4)]
    for rank in ranks: rank.start()
    for rank in ranks: rank.join()
    assert [rank.exitcode for rank in ranks] == [0] * 4
    """
    done = program(text, f"127.0.0.1:{free_ports()}", CONCEPTWATCH_BINARY=str(binary))
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("started a sidecar") == 1
    wait_for(lambda: "ended" in log.read_text())
    assert log.read_text().count("serve") == 1
    assert "ended after 4 batches" in log.read_text()


def test_a_worker_of_the_job_does_not_keep_the_sidecar_alive(stand_in: tuple[Path, Path]) -> None:
    binary, log = stand_in
    text = f"""
    import os, sys, time
    {JOB.strip().replace(chr(10), chr(10) + "    ")}
    if os.fork() == 0:
        os.close(1), os.close(2)
        time.sleep(60)
        os._exit(0)
    """
    done = program(text, f"127.0.0.1:{free_ports()}", "0", CONCEPTWATCH_BINARY=str(binary))
    assert done.returncode == 0, done.stderr
    wait_for(lambda: "ended" in log.read_text())


def test_a_binary_that_ends_at_once_is_said_and_training_goes_on(tmp_path: Path) -> None:
    binary = tmp_path / "conceptwatch"
    binary.write_text("#!/bin/sh\nexit 7\n")
    binary.chmod(0o755)
    text = JOB.replace("assert run.finish()", "run.finish(timeout=0.2)")
    done = program(text, f"127.0.0.1:{free_ports()}", "0", CONCEPTWATCH_BINARY=str(binary))
    assert done.returncode == 0
    assert "ended with status 7, see " in done.stderr


def test_the_stated_binary_comes_first(monkeypatch: pytest.MonkeyPatch, stand_in: tuple[Path, Path]) -> None:
    monkeypatch.setenv("CONCEPTWATCH_BINARY", str(stand_in[0]))
    assert find_binary() == str(stand_in[0])
    monkeypatch.setenv("CONCEPTWATCH_BINARY", "/nowhere")
    assert find_binary() is None
