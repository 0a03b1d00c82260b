"""Scores and estimates of arrays, without a sidecar.

The program runs as a child that reads from one pipe and answers on another: no file, no port, and a failure of it is an
exception here.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from ._declaration import Constants, checks_of, declared, kind_of
from ._diagnosis import Diagnosis
from ._encode import outside_unit, parts
from ._head import Head, Recent
from ._interventions import check_counts, lacks_predictions, with_head
from ._labels import Labels
from ._protocol import messages
from ._run import ConceptwatchError
from ._scores import Score, Scores
from ._sidecar import find_binary
from ._summary import is_quiet
from ._tensors import SHAPES, Copy, Fault, Tensors

if TYPE_CHECKING:
    from typing_extensions import Unpack

# Seconds of work that nobody wonders about, and between two looks at how far it is.
QUIET, PAUSE = 2.0, 0.25
BAR = 20
ESTIMATORS = {name: name for name in ("tie_aware", "published")}
# A line that the program writes while it works.
_DONE = re.compile(r"(\d+)/(\d+) (.*)")
_CLASSES = np.iinfo(np.int32)


class Given(Tensors, Constants, total=False):
    """The other keywords of `score`, for type checkers."""


def score(
    *,
    concepts: int | Sequence[str | tuple[str, int]] | None = None,
    activation_kind: str = "probability",
    activation_columns: str = "one_per_concept",
    latents: int | None = None,
    concept_kind: str = "class",
    task_kind: str = "class",
    missing_concept_labels: bool = False,
    signed_labels: bool = False,
    training: str = "joint",
    head: Any = None,
    scores: Sequence[str] | None = None,
    estimator: str = "tie_aware",
    seed: int = 0,
    threads: int | None = None,
    **tensors: Unpack[Given],
) -> Scores:
    """Scores arrays in memory, such as the outputs of a model on its validation set. Nothing has to run.

        scores = conceptwatch.score(concept_activations=c_hat, concept_labels=c, task_labels=y)
        print(scores.verdict)
        scores["ctl_conditional"], scores.diagnosis(), scores.to_frame()

    tensors: those of `Pass.log`, with all rows; and the constants of `init`, such as head_weights.
    concepts: as in `init`; by default as many as the tensors have.
    concept_kind, task_kind: as concept_labels and task_labels of `init`.
    scores: ids of the scores to compute; by default all whose tensors are given.
    estimator: "tie_aware", or "published", which breaks ties by noise of this `seed`.
    threads: by default all cores. The scores do not depend on it.
    The other arguments are those of `init`.

    Shows its progress after two seconds. Raises ValueError for tensors that `Pass.log` refuses, and ConceptwatchError
    if the program fails, as for lack of memory.
    """
    given = cast("dict[str, Any]", tensors)
    constants = cast("Constants", {name: given.pop(name) for name in Constants.__annotations__ if name in given})
    own_head = None if head is None else Head.of(head)
    run = declared(
        "notebook",
        concepts=_concepts_in(given, latents) if concepts is None else concepts,
        activation_kind=activation_kind,
        activation_columns=activation_columns,
        latents=latents,
        concept_labels=("concept_kind", concept_kind),
        task_labels=("task_kind", task_kind),
        missing_concept_labels=missing_concept_labels,
        training=training,
        head=own_head,
        constants=constants,
    )
    checks, labels = checks_of(run, signed_labels)
    plain = labels.plain(given)
    check_counts(plain, len(run.concepts), run.constants.intervention_counts)
    found = checks.logged(plain)
    if own_head is not None and lacks_predictions(plain):
        found += checks.logged(with_head(own_head, run, plain, Recent(), 0))
    arguments = ["--estimator", kind_of("estimator", estimator, ESTIMATORS)]
    arguments += ["--seed", _number("seed", seed, 0, (1 << 64) - 1)]
    arguments += [] if threads is None else ["--threads", _number("threads", threads, 1, 1024)]
    if scores is not None:
        arguments += [f"--scores={','.join([scores] if isinstance(scores, str) else scores)}"]
    copies = [tensor.copy(None) for tensor in found]
    for copy in copies:
        copy.wait()
    remark = outside_unit(run, copies)
    if remark is not None:
        warnings.warn(remark.replace(" to init", ""), stacklevel=2)
    answer = _answer("score-tensors", arguments, [[run.SerializeToString()], _tensors(copies)])
    end = 8 + int.from_bytes(answer[:8], "little")
    diagnosis = Diagnosis("", messages.GetDiagnosisResponse.FromString(answer[end:]))
    return Scores(messages.Point.FromString(answer[8:end]), diagnosis)


def mutual_information(x: Any, y: Any, given: Any = None, neighbors: int = 3) -> Score | list[Score]:
    """Estimates I(X;Y), or I(X;Y|given), in nats, from nearest neighbours or, of classes alone, by counting.

        i = conceptwatch.mutual_information(x, y)
        i, i.standard_error
        np.asarray(conceptwatch.mutual_information(features, y))      # one for each column, computed in parallel

    Floats are numbers; integers, booleans and strings are classes, and a vector of them is one class.

    x: a column [n] or columns [n, m]: the result is then a list with an estimate for each. [n, m, d] are m columns of
        vectors. y: a column [n] or vectors [n, d]. given: a column [n] of classes or numbers.
    neighbors: fewer have less bias, more have less variance.

    Estimators: Kraskov et al. 2004 for numbers, Ross 2014 for numbers and classes, the plug-in for classes. Rounded
    values need no noise, and numbers are compared in units in which their spreads are alike. Estimates are not clipped:
    without information they scatter around 0, except those by counting, which are too large by about
    (classes of x - 1)(classes of y - 1)/2n. Standard errors of estimates from neighbours are 75 to 90 % of their
    scatter. NaN where `undefined` says why, as for a constant column.
    """
    copies = [_columns("x", x), _columns("y", y, joint=True)]
    if given is not None:
        copies.append(_columns("given", given, joint=True))
        if copies[-1].shape[3] > 1:
            raise Fault(
                f"given has {copies[-1].shape[3]} columns of numbers, expected one column of classes or numbers"
            )
    for copy in copies[1:]:
        if copy.shape[2] != copies[0].shape[2]:
            raise Fault(f"{copy.name} has {copy.shape[2]} rows, but x has {copies[0].shape[2]}")
    arguments = ["--neighbours", _number("neighbors", neighbors, 1, 1000)]
    answer = json.loads(_answer("estimate", arguments, [_tensors(copies)]))
    name = "mutual_information" if given is None else "conditional_mutual_information"
    found = [Score(id=name, **estimate) for estimate in answer]
    return found[0] if np.ndim(x) == 1 else found


def _concepts_in(tensors: dict[str, Any], latents: int | None) -> int:
    """How many concepts the tensors have."""
    for letter in "k" if latents else "kK":
        for name, value in tensors.items():
            shape = np.shape(value)
            dims = next((dims.split() for dims in SHAPES.get(name, ()) if len(dims.split()) == len(shape)), [])
            if letter in dims:
                return int(shape[dims.index(letter)])
    return 1


def _number(name: str, value: Any, least: int, most: int) -> str:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or not least <= value <= most:
        raise ValueError(f"{name}: got {value!r}, expected a whole number from {least} to {most}")
    return str(int(value))


def _columns(name: str, value: Any, *, joint: bool = False) -> Copy:
    """Classes or numbers, [1, columns, n, values of a row]. joint: they are one column of vectors."""
    value = Labels(()).plain({name: value})[name]
    if hasattr(value, "detach"):
        value = value.detach().cpu()
        value = (value.float() if str(value.dtype) == "torch.bfloat16" else value).numpy()
    array = np.asarray(value)
    if array.dtype == object:
        array = np.asarray(array.tolist())
    if array.dtype.kind not in "biufUS":
        raise Fault(f"{name} are of type {array.dtype}; give numbers, or classes as integers or strings")
    expected = ("[n]", "[n, d]") if joint else ("[n]", "[n, m]", "[n, m, d]")
    if not 1 <= array.ndim <= len(expected) or 0 in array.shape:
        raise Fault(f"{name} has shape {list(array.shape)} instead of {' or '.join(expected)}")
    rows = array.shape[0]
    array = array.reshape((rows, 1, -1) if joint or array.ndim == 1 else (*array.shape, 1)[:3])
    by_column = np.moveaxis(array, 1, 0)
    if array.dtype.kind == "f":
        wrong = np.argwhere(~np.isfinite(array))
        if wrong.size:
            row = wrong[0][0]
            raise Fault(f"{name} has NaN or an infinity in row {row}; leave such rows out")
        numbers = np.ascontiguousarray(by_column[None], np.float64)
        return Copy(name, messages.DATA_TYPE_FLOAT64, numbers.shape, numbers)
    classes = np.stack([_class_numbers(column) for column in by_column])[None, :, :, None]
    return Copy(name, messages.DATA_TYPE_INT32, classes.shape, classes)


def _class_numbers(rows: NDArray[Any]) -> NDArray[np.int32]:
    """The class of each row of values."""
    if rows.shape[1] > 1:
        return np.unique(rows, axis=0, return_inverse=True)[1].reshape(-1).astype(np.int32)
    column = rows[:, 0]
    if rows.dtype.kind in "biu" and _CLASSES.min <= column.min() <= column.max() <= _CLASSES.max:
        return column.astype(np.int32)
    return np.unique(column, return_inverse=True)[1].astype(np.int32)


def _tensors(copies: list[Copy]) -> list[Any]:
    return parts(messages.BatchChunk(), copies, 0, copies[0].shape[0])


def _answer(command: str, arguments: list[str], requests: Iterable[list[Any]]) -> bytes:
    """The answer of a command of the program to what is written to it."""
    binary = find_binary()
    if binary is None:
        raise ConceptwatchError("the program was not found; install the package with pip, or set CONCEPTWATCH_BINARY")
    pipe, environment = subprocess.PIPE, {**os.environ, "RUST_BACKTRACE": "0"}
    began, shown = time.monotonic(), ""
    # Unbuffered: nothing is left to write when it has ended.
    with subprocess.Popen(
        [binary, command, *arguments], stdin=pipe, stdout=pipe, stderr=pipe, bufsize=0, env=environment
    ) as child:
        try:
            _write(child.stdin, requests)
            while True:
                try:
                    answer, said = child.communicate(timeout=PAUSE)
                    break
                except subprocess.TimeoutExpired as waiting:
                    shown = _progress(waiting.stderr, time.monotonic() - began, shown)
        finally:
            child.kill()  # without effect on a child that has ended
            child.wait()  # after Ctrl-C `Popen` does not wait
            if shown:
                print("\r" + " " * len(shown), end="\r", file=sys.stderr, flush=True)
    if child.returncode != 0:
        raise _failure(command, child.returncode, said.decode(errors="replace"))
    return answer


def _write(stdin: Any, requests: Iterable[list[Any]]) -> None:
    try:
        for request in requests:
            views = [memoryview(part).cast("B") for part in request]
            for view in (memoryview(sum(map(len, views)).to_bytes(8, "little")), *views):
                left = view
                while left:
                    left = left[stdin.write(left) or 0 :]
    except BrokenPipeError:
        pass  # it has ended, and said why


def _progress(said: bytes | None, seconds: float, shown: str) -> str:
    """Shows how far the program is, and returns what is shown."""
    lines = (said or b"").decode(errors="replace").splitlines()
    done = next(filter(None, map(_DONE.fullmatch, reversed(lines))), None)
    watched = sys.stderr.isatty() or "ipykernel" in sys.modules
    if done is None or seconds < QUIET or not watched or is_quiet():
        return shown
    at = BAR * int(done[1]) // int(done[2])
    line = f"[{'#' * at}{'-' * (BAR - at)}] {done[1]}/{done[2]} {done[3]}, {seconds:.0f} s"
    print("\r" + line.ljust(len(shown)), end="", file=sys.stderr, flush=True)
    return line.ljust(len(shown))


def _failure(command: str, status: int, said: str) -> Exception:
    """Why the program has failed, by its exit status and what it said."""
    lines = [line for line in said.splitlines() if line and not _DONE.fullmatch(line) and not line.startswith("note: ")]
    reason = " ".join(lines).removeprefix(f"conceptwatch {command}: ")
    if status == 2 and not reason.startswith("error: "):  # bad input, but no option that it does not know
        for prefix in ("tensors.", "run.constants.", "run.", "--"):
            reason = reason.removeprefix(prefix)
        return ValueError(reason)
    if status < 0:
        # SIGKILL comes from a system without memory left; the program itself aborts.
        reason = f"ended by {signal.Signals(-status).name}, as for lack of memory. {reason}".rstrip()
    return ConceptwatchError(f"the program failed: {reason or f'exit status {status}'}")
