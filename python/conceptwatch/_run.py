"""Runs and evaluation passes: the interface for training loops."""

from __future__ import annotations

import atexit
import logging
import math
import os
import sys
import time
import weakref
from collections.abc import Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, cast

import grpc
import numpy as np

from . import _collected, _declaration, _sidecar
from ._connection import Contact, described
from ._diagnosis import Diagnosis
from ._encode import Batch, PassKey, is_pass, wanted_rows
from ._finish import ALONE, LONGEST_WAIT, TIMEOUT, TRANSIENT, Ending
from ._fork import usable
from ._head import Head, Recent
from ._interventions import check_counts, lacks_predictions, with_head, without_predictions
from ._labels import Labels
from ._loggers import Forward, Logger
from ._names import composed
from ._outcome import failure, handled, outcome_of, uncaught
from ._presample import Panel, client_hash, identities
from ._protocol import messages
from ._reading import Curves, StoredRun, stored
from ._run_channel import EndOfPass, Link
from ._scores import Scores
from ._sender import Sender, sender_to
from ._source import ReadError, source_of
from ._stats import Stats
from ._summary import dropped_rows, evaluations, is_quiet, summary
from ._tables import html_table
from ._tensors import Checks, Fault, Logged, Tensors

if TYPE_CHECKING:
    from typing_extensions import Unpack

EXIT_TIMEOUT = 5.0
# Added to the timeout of a call that waits in the sidecar, for the way there and back.
GRACE = 1.0
# Steps without an answer that are asked about again: as many as a sidecar takes.
MOST_UNANSWERED = 64
DECLARATION_TIMEOUT = 2.0
# The reason for advice that did not come.
SILENCE = "the sidecar did not answer"
# Seconds that the last scores may take to reach the job's loggers.
LOGGING_TIMEOUT = 30.0

log = logging.getLogger("conceptwatch")


class ConceptwatchError(RuntimeError):
    """Something logged could not be sent or was refused, with `raise_errors=True`; or the program of `score` failed."""


class Run(Curves):
    """A monitored run, from `init`. As a context manager it finishes at the end of the block.

    A run that was not finished is finished when nothing refers to it any more, or at exit.
    """

    _finished = True  # until it has begun

    def __init__(
        self,
        link: Link,
        contact: Contact,
        raise_errors: bool,
        checks: tuple[Checks, Labels],
        head: Head | None = None,
        loggers: Sequence[Logger] = (),
    ) -> None:
        self.address = contact.address
        self._link = link
        self._head = head
        self._recent = Recent()
        self._sender: Sender = sender_to(contact)
        self._checks, self._labels = checks
        self._set_as = _declaration.set_as(link.run)
        self._raise_errors = raise_errors
        self._goes_on = False
        self._process = os.getpid()
        self._error: BaseException | None = None  # which ended the script, or the run's block
        self._handled = id(handled())  # with which the run has nothing to do
        self._token_file: str | None = None
        self._advice: dict[int, tuple[bool, str]] = {}  # by step, with the reason
        # Steps without an answer: another rank may have had one, or have it later.
        self._unanswered: list[int] = []
        self._silence = SILENCE  # why the last question had no answer
        self._ended: dict[str, PassKey] = {}  # by split, the pass that ended last
        self._newest: dict[tuple[str, int], int] = {}  # by split and step, the ordinal of that one
        self._epochs: dict[str, float | None] = {}  # by split, of that one
        self._forward: Forward | None = None
        if loggers:
            # Without the run, which must not live as long as the sender.
            read = partial(_settled_scores, self._sender, link)
            self._forward = Forward(loggers, partial(link.warn, is_fault=False), read)
            link.on_point = self._forward.settled
        self._sender.attach(link)
        _collected.start()
        self._finished = False
        _runs.add(self)

    @property
    def name(self) -> str:
        """The name in use: that given to `init`, unless the sidecar answers that it is taken and gives another."""
        return self._link.name

    @property
    def job(self) -> str:
        """The job that the run belongs to; empty where it is not known."""
        return self._link.launch.job

    @property
    def page_url(self) -> str | None:
        """The page's address for a browser on the sidecar's machine, for whose answer it waits briefly."""
        self._sender.wait_declared(self._link, DECLARATION_TIMEOUT)
        return self._link.page_url or _sidecar.page_url(self.address)

    @property
    def data_dir(self) -> str | None:
        """The directory of the curves on the sidecar's machine; None while it is unknown, or if they are in memory."""
        self._sender.wait_declared(self._link, DECLARATION_TIMEOUT)
        return self._link.data_dir or None

    @property
    def stats(self) -> Stats:
        """Counts of batches and rows queued, sent, acknowledged and dropped so far."""
        return self._sender.stats(self._link)

    def evaluation(self, split: str = "val", *, step: int, epoch: float | None = None) -> Pass:
        """One pass over an evaluation set with a frozen model. Leaving the block ends the pass for this rank.

        step: optimiser steps so far. epoch: epochs so far.
        """
        return Pass(self, composed(split), step, self._epoch_of(epoch))

    def log(self, *, split: str = "train", step: int, epoch: float | None = None, **tensors: Unpack[Tensors]) -> None:
        """Logs a batch of a split that is evaluated over recent steps. Tensors as in `Pass.log`."""
        self._note(tensors.get("concept_activations"))
        plain = self._plain(split, cast("dict[str, Any]", tensors))
        if plain is not None:
            self._log(composed(split), step, self._epoch_of(epoch), plain, None)

    def scores(
        self, split: str = "val", *, step: int | None = None, timeout: float = 0.0, matrices: bool = False
    ) -> Scores | None:
        """A split's newest scores, or those of a step, waiting up to `timeout` seconds; None if there are none.

        It waits for scores over pairs of concepts, not for those that train networks, and returns what there is when
        the time is over.
        """
        return self._scores(composed(split), step, None, timeout, matrices)

    def _scores(
        self, split: str, step: int | None, ordinal: int | None, timeout: float, matrices: bool
    ) -> Scores | None:
        """As `scores`. ordinal: of the pass of that step, by default the newest of this process."""
        began = time.monotonic()
        left = self._flush(timeout, step)
        if left is None:
            return None
        of = self._newest_of(split, step)
        request = messages.GetScoresRequest(
            run=self.name,
            split=split,
            step=None if of is None else of.step,
            ordinal=0 if of is None else of.ordinal if ordinal is None else ordinal,
            timeout_seconds=left,
            matrices=matrices,
        )
        answer = self._ask(self._sender.calls().get_scores, request, left)
        if answer is not None and answer.HasField("point"):
            return Scores(answer.point)
        if answer is not None and _is_over(began, timeout):
            at = "" if step is None else f", step {step}"
            late = f"the scores of split '{split}'{at} are late: there are none after {timeout:g} s"
            self._link.warn(late + self._link.awaited, is_fault=False)
        return None

    def diagnosis(self, split: str = "val", *, step: int | None = None, timeout: float = 0.0) -> Diagnosis | None:
        """The verdict on a split at its newest finished evaluation, and the faults that it shows, with their numbers.

        Waits up to `timeout` seconds for all scores of the evaluation of `step`, by default the one that this process
        ended last. None before the first evaluation is scored, or when the sidecar cannot be reached.
        """
        left = self._flush(timeout, step)
        if left is None:
            return None
        split = composed(split)
        of = self._newest_of(split, step) or self._ended.get(split)
        request = messages.GetDiagnosisRequest(
            run=self.name,
            split=split,
            step=None if of is None else of.step,
            ordinal=0 if of is None else of.ordinal,
            timeout_seconds=left,
        )
        answer = self._ask(self._sender.calls().get_diagnosis, request, left)
        return Diagnosis(split, answer) if answer is not None else None

    def stored(self) -> StoredRun:
        """The run as the sidecar has stored it, for frames and plots: `run.stored().series("ctl_conditional")`.

        Raises ReadError where the sidecar's page cannot be reached.
        """
        page = self.page_url
        source = None if page is None else source_of(page, self._token_file)
        if source is None and self.data_dir is not None:
            source = source_of(self.data_dir)
        if source is None:
            raise ReadError(f"run '{self.name}': the sidecar at {self.address} gives no HTTP port to read from")
        return stored(source, self.name)

    def _stored(self) -> StoredRun:
        return self.stored()

    def __repr__(self) -> str:
        link, stats = self._link, self.stats
        dropped = dropped_rows(stats)
        parts = [evaluations(stats), *([dropped] * bool(dropped))]
        state = "finished" if self._finished else link.refusal or ("connected" if link.declared else "no answer yet")
        parts += [
            state,
            *([f"page {link.page_url}"] * bool(link.page_url)),
            *([f"curves in {link.data_dir}"] * bool(link.data_dir)),
        ]
        return f"<conceptwatch.Run {self.name!r} at {self.address}: {', '.join(parts)}>"

    def _repr_html_(self) -> str:
        try:
            return self.stored()._repr_html_()
        except ReadError:
            return html_table(["run"], [[repr(self)]])

    def should_stop(self, *, step: int, timeout: float = 5.0) -> bool:
        """Whether training should stop, by the evaluation of `step`, waiting up to `timeout` seconds for it.

        The answer for a step stays until training goes back; `stop_reason` gives the reason. If the scores of the step
        are late, it rests on earlier ones, as reason and log say. False when the sidecar cannot be reached: if other
        ranks were advised to stop, this rank's next answer is True. See docs/scale.md for stopping all ranks at once.
        """
        if not self._is_step(step):
            return False
        step = int(step)
        if step not in self._advice:
            began = time.monotonic()
            left = self._flush(timeout)
            request = messages.GetAdviceRequest(
                run=self.name,
                step=step,
                timeout_seconds=left or 0.0,
                client=self._sender.client,
                unanswered_steps=self._unanswered,
            )
            answer = None if left is None else self._ask(self._sender.calls().get_advice, request, left or 0.0)
            stop, reason = (False, self._silence) if answer is None else (answer.stop, answer.reason)
            if answer is not None and not stop and answer.HasField("missed_step"):
                stop, reason = True, f"missed at step {answer.missed_step}: {answer.missed_reason}"
                self._unanswered = [unanswered for unanswered in self._unanswered if unanswered > answer.missed_step]
            if answer is None:
                self._unanswered = [*self._unanswered, step][-MOST_UNANSWERED:]
            elif _is_over(began, timeout) and answer.decided_by_step < step:
                asked = f"whether to stop at step {step} was asked too early: {reason}{self._link.awaited}"
                self._link.warn(asked, is_fault=False)
            elif self.stats.passes_ended and reason.startswith("no rule that advises stopping looks at"):
                self._link.warn(f"should_stop cannot say True: {reason}", is_fault=False)
            self._advice[step] = stop, reason
        return self._advice[step][0]

    def stop_reason(self, *, step: int) -> str:
        """The reason for the answer of `should_stop` for that step; empty before that was called."""
        return self._advice.get(step, (False, ""))[1]

    def finish(self, timeout: float | None = None) -> bool:
        """Sends what is left, waits until it is settled, and states that this rank has finished.

        Settled: the scores, or the reason why there are none, are in the history, and a crash of the sidecar can lose
        nothing. The last rank prints the last scores, the alerts that fired and where the curves are, unless
        CONCEPTWATCH_QUIET is set.

        The run has failed where an exception leads here; otherwise it has stopped on advice if `should_stop` said so
        and was not asked again, and else finished.

        timeout: seconds to wait; by default 30, but 5 while no sidecar answers. Then it returns False, and the log
            names the evaluations that are not settled. Also False where rows were dropped as `forked` or
            `run_refused`.
        """
        if self._finished:
            return True
        self._finished = True
        _runs.discard(self)
        # Every rank states it for itself; a forked worker is not a rank.
        states_it = self._process == os.getpid() and usable() and not self._goes_on
        finish_run = self._sender.calls().finish_run if states_it else None
        if self._error is None and id(handled()) != self._handled:
            self._error = failure(handled())
        # A job that asks again has not stopped.
        answers = [stop for stop, _ in self._advice.values()]
        advised = sum(answers) == 1 and answers[-1]
        ending = Ending(self._sender, self._link, timeout, outcome_of(self._error, advised=advised))
        try:
            done = ending.finish(finish_run)
            if self._forward is not None:
                self._forward.finish(LOGGING_TIMEOUT)
            if ending.answer.finished and not is_quiet():
                self._sum_up(ending, advised)
            return done
        except (grpc.RpcError, ValueError, OSError) as error:  # ValueError: the channel is closed
            if self._raise_errors:
                raise ConceptwatchError(str(error)) from error
            self._link.warn(f"the sidecar was not told that it has finished: {described(error)}")
            return False
        finally:
            self._sender.detach(self._link)

    def _sum_up(self, ending: Ending, advised: bool) -> None:
        newest: dict[str, Scores] = {}
        for split in self._ended:
            request = messages.GetScoresRequest(run=self.name, split=split)
            answer = self._ask(self._sender.calls().get_scores, request, 0.0)
            if answer is not None and answer.HasField("point"):
                newest[split] = Scores(answer.point)
        text = summary(self._link, self.stats, newest, ending.answer, self._error, advised=advised)
        print(text, end="", file=sys.stderr)

    def __enter__(self) -> Run:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._error = failure(error)
        self.finish()

    def _is_step(self, step: Any) -> bool:
        """Whether it is a step. What is none is said, and raised with `raise_errors`."""
        try:
            _step_of(step)
        except Fault as fault:
            if self._raise_errors:
                raise ConceptwatchError(str(fault)) from None
            self._link.warn(str(fault), is_fault=False)
            return False
        return True

    def _newest_of(self, split: str, step: int | None) -> PassKey | None:
        """The newest pass of a step that this process has ended; with ordinal 0, any."""
        return None if step is None else PassKey(split, int(step), self._newest.get((split, int(step)), 0))

    def _flush(self, timeout: float, step: int | None = None) -> float | None:
        """Waits until what was logged is acknowledged and the run is declared; before that another run may have its
        name. Returns what is left of the timeout, or None when there can be no answer, as about what is no step.
        """
        if step is not None and not self._is_step(step):
            return None
        timeout = min(max(0.0, timeout), LONGEST_WAIT)
        end = time.monotonic() + timeout
        sender, link = self._sender, self._link
        sender.flush(link, timeout)
        declared = sender.wait_declared(link, max(0.0, end - time.monotonic()) + GRACE)
        if declared and not (sender.down or link.refused) and usable():
            return max(0.0, end - time.monotonic())
        now = f"the sidecar does not take the run now ({sender.refusal})" if sender.refusal else ""
        self._silence = (link.refusal or now or SILENCE) if usable() else "a forked process cannot ask the sidecar"
        return None

    def _ask(self, call: Any, request: Any, timeout: float) -> Any:
        try:
            return call(request, timeout=max(0.0, timeout) + GRACE)
        except (grpc.RpcError, ValueError) as error:  # ValueError: the channel is closed
            if self._raise_errors:
                raise ConceptwatchError(str(error)) from error
            heard = isinstance(error, grpc.RpcError) and error.code() not in TRANSIENT
            self._silence = f"the sidecar answered {described(error)}" if heard else SILENCE
            return None

    def _log(
        self,
        split: str,
        step: int,
        epoch: float | None,
        tensors: Mapping[str, Any],
        panel: Panel | None,
        ordinal: int = 1,
    ) -> int:
        """Logs a batch and returns its number of rows. ordinal: of its pass."""
        self._notice()
        if self._raise_errors and self._link.fault:
            fault, self._link.fault = self._link.fault, None
            raise ConceptwatchError(fault)
        try:
            if self._finished:
                raise Fault("the run is finished; call init for a new one")
            check_counts(tensors, len(self._link.run.concepts), self._link.run.constants.intervention_counts)
            found = self._checks.logged(tensors)
            self._queue(PassKey(split, _step_of(step), ordinal), epoch, found, panel)
            return found[0].shape[0]
        except Exception as error:  # monitoring must not end a training run
            self._reject(error, split, _rows(tensors))
            return _rows(tensors)

    def _plain(self, split: str, tensors: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """The tensors without masks and missing values, labels as class numbers. None where they are refused."""
        try:
            plain = self._labels.plain(tensors)
            self._sender.count(self._link, labels_unknown=self._labels.unknown(plain))
            return plain
        except Exception as error:  # monitoring must not end a training run
            self._reject(error, split, _rows(tensors))
            return None

    def _epoch_of(self, epoch: Any) -> float | None:
        """An epoch as a number; unknown where it is none, which is said and costs nothing else."""
        try:
            found = None if epoch is None else float(epoch)
        except (TypeError, ValueError):
            found = math.nan
        if found is None or (math.isfinite(found) and found >= 0.0):
            return found
        self._link.warn(
            f"epoch: got {epoch!r}, expected a number of at least 0. The evaluation is kept, without an epoch",
            is_fault=False,
        )
        return None

    def _notice(self) -> None:
        """Lets the job's loggers write, on its own thread."""
        if self._forward is not None and self._process == os.getpid() and not self._finished:
            self._forward.notice()

    def _note(self, activations: Any) -> None:
        """Keeps the newest training logits, whose percentiles stand for concepts that are set."""
        try:
            if self._head is not None and self._head.is_measured(self._set_as):
                self._recent.add(activations, trained=True)
        except Exception as error:  # monitoring must not end a training run
            self._link.warn(f"concept_activations: {type(error).__name__}: {error}")

    def _intervened(self, tensors: Mapping[str, Any], head: Any, first_row: int) -> Mapping[str, Any]:
        """The tensors with the predictions of the head, if there is one, after interventions on the batch.

        A head that fails costs the batch these predictions, which are -1 or NaN: the other scores go on.
        """
        head = self._head if head is None else head
        if head is None or not lacks_predictions(tensors):
            return tensors
        declared, rows = self._link.run, _rows({"concept_labels": tensors["concept_labels"]})
        options = self._head
        try:
            options = Head.of(head)
            found = with_head(options, declared, self._set_as, tensors, self._recent, first_row)
        except Exception as error:  # monitoring must not end a training run
            self._sender.count(self._link, heads_failed=1)
            message = str(error) if isinstance(error, Fault) else f"head: {type(error).__name__}: {error}"
            self._link.warn(f"{message}. The batch is logged without predictions after interventions")
            if self._raise_errors:
                self._link.fault = None
                raise
            if options is None or not rows:
                return tensors
            found = without_predictions(options, declared, rows)
        return {**tensors, **found}

    def _reject(self, error: Exception, split: str, rows: int) -> None:
        """Counts and reports a batch that could not be logged; raises with `raise_errors`."""
        self._sender.count_drop(self._link, "invalid", rows)
        message = str(error) if isinstance(error, Fault) else f"{type(error).__name__}: {error}"
        outcome = f"The batch of '{split}' was dropped; run.stats.batches_dropped counts such batches"
        self._link.warn(message, outcome=outcome)
        if self._raise_errors:
            self._link.fault = None
            raise error

    def _queue(self, key: PassKey, epoch: float | None, found: list[Logged], panel: Panel | None) -> None:
        split, step, ordinal = key
        rows, limits = found[0].shape[0], self._link.limits
        row_bytes = sum(tensor.row_bytes for tensor in found)
        # A batch larger than the sidecar accepts is sent as several.
        most = max(1, (limits.max_batch_bytes - limits.max_batch_bytes // 64) // row_bytes)
        for start in range(0, rows, most):
            end = min(start + most, rows)
            part = found if rows <= most else [tensor.part(start, end) for tensor in found]
            with self._sender.logging:
                if not usable():
                    self._sender.count_drop(self._link, "forked", end - start)
                    self._link.warn(
                        "what a forked process logs is dropped, because it cannot use its parent's connection. Log "
                        "from the parent, or start processes with the 'spawn' method"
                    )
                elif self._link.refused:
                    self._sender.count_drop(self._link, self._link.refused, end - start)
                elif not self._sender.has_room(self._link, (end - start) * row_bytes):
                    self._sender.count_drop(self._link, "queue_full", end - start)
                else:
                    numbers = self._wanted(split, part, panel)
                    copies = [tensor.copy(numbers) for tensor in part]
                    size = row_bytes * (end - start if numbers is None else numbers.size)
                    batch = Batch(split, step, epoch, copies, end - start, size, panel, numbers, ordinal)
                    self._sender.put(self._link, batch)

    def _wanted(self, split: str, part: list[Logged], panel: Panel | None) -> Any:
        """The rows that may be sampled, or None for all of them."""
        if panel is None or not is_pass(self._link.limits, split):
            return None
        given = next((tensor for tensor in part if tensor.name == "sample_ids"), None)
        if given is not None:
            # Reading ids on a GPU would block, so these rows are thinned after they have arrived.
            return wanted_rows(panel, self._link.limits, given.row_ids)
        client, sequence, rows = self._sender.client, self._sender.next_sequence, part[0].shape[0]
        return wanted_rows(panel, self._link.limits, lambda: identities(client_hash(client), sequence, np.arange(rows)))

    def _begin(self, split: str, step: int, epoch: float | None) -> int:
        """Begins a pass and returns its ordinal. What is no step is said when something is logged."""
        try:
            step = _step_of(step)
        except Fault:
            return 1
        before = self._ended.get(split)
        if before is not None and step < before.step:
            self._begin_branch(before, step)
        elif before is not None and step == before.step and _is_later(epoch, self._epochs[split]):
            self._link.warn(
                f"'{split}' is evaluated again at step {step}, and the newest evaluation of a step takes the place of "
                "the one before: where the model was trained in between, count its steps over the whole training",
                is_fault=False,
            )
        return self._sender.begin(self._link, split, step).ordinal

    def _begin_branch(self, before: PassKey, step: int) -> None:
        """Separates the evaluations from `step` on that were made before training went back there: of another model."""
        began = self._sender.begin_branch(self._link, time.monotonic() + TIMEOUT, ALONE)
        self._advice = {known: answer for known, answer in self._advice.items() if known < step}
        self._unanswered, self._ended, self._newest = [], {}, {}
        fate = f"earlier ones from step {step} on are superseded" if began else "both are in one curve"
        self._link.warn(
            f"'{before.split}' is evaluated at step {step} after step {before.step}, as where training begins again: "
            f"{fate}. For another training call conceptwatch.init again; within one, count steps over all epochs, and "
            "evaluate checkpoints in the order of their steps",
            is_fault=False,
        )

    def _end(self, split: str, step: int, epoch: float | None, rows: int, ordinal: int, abandoned: str = "") -> None:
        """Ends a pass. abandoned: why it was left without ending it."""
        self._notice()
        if not self._is_step(step):
            return
        key = PassKey(split, int(step), ordinal)
        if not abandoned:
            self._ended[split], self._newest[split, key.step], self._epochs[split] = key, ordinal, epoch
        with self._sender.logging:
            end = EndOfPass(split, key.step, epoch, rows, ordinal, abandoned)
            if not usable():
                self._sender.drop_end(self._link, end)
            elif not self._finished:
                self._sender.put(self._link, end)

    def __del__(self) -> None:
        # The collector finds a copy in each forked child, too, which is not a rank.
        if not self._finished and self._process == os.getpid():
            _collected.later(self._finish_collected)

    def _finish_collected(self) -> None:
        """Finishes the run, unless another object has joined it, as where the cell that calls `init` was run again."""
        self._goes_on = any(run is not self and self._is_joined_by(run) for run in _runs)
        self.finish()

    def _is_joined_by(self, run: Run) -> bool:
        """Another job does not join. Until its run has an answer, it has the name that it asks for."""
        is_named = run.name == self.name and run.address == self.address
        return is_named and (run.job == self.job or run._link.resume)


class Pass:
    """One evaluation pass, from `Run.evaluation`.

    A pass that is left by an exception, or dropped before it has ended, is discarded. If a step is evaluated again, the
    newest pass is current.
    """

    _is_open = False

    def __init__(self, run: Run, split: str, step: int, epoch: float | None) -> None:
        self.split, self.step, self.epoch = split, step, epoch
        self._run = run
        self._ordinal = 0  # 0: it has not begun
        self._rows = 0

    def __enter__(self) -> Pass:
        if not self._is_open:
            self._begin()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._is_open:
            self._begin()
        if kind is None:
            self._is_open = False
            self._run._end(self.split, self.step, self.epoch, self._rows, self._ordinal)
        else:
            self._abandon(kind.__name__)
            self._run._link.warn(
                f"{kind.__name__} left an evaluation of '{self.split}' at step {self.step}, which is discarded. It can "
                "be run again at the same step",
                is_fault=False,
            )

    def __del__(self) -> None:
        if self._is_open and self._run._process == os.getpid():
            _collected.later(partial(self._abandon, "it was dropped before its end"))

    def _begin(self) -> None:
        self._ordinal, self._rows = self._run._begin(self.split, self.step, self.epoch), 0
        self._panel = Panel()
        self._run._link.panels.add(self._panel)
        self._is_open = True

    def _abandon(self, why: str) -> None:
        self._is_open = False
        self._run._end(self.split, self.step, self.epoch, self._rows, self._ordinal, why)

    def log(self, *, head: Any = None, **tensors: Unpack[Tensors]) -> None:
        """Logs a batch: numpy arrays or torch tensors on any device, by the names below. A None is ignored.

        n rows, k concepts, t tasks, l classes, d and D any width. The tensors are copied and may be overwritten
        afterwards.

        sample_ids [n], each row's index in its data set, make epochs comparable row by row.

        concept_activations [n, K] or [n, K, m], K columns by `activation_columns` or `latents`; concept_labels [n, k];
        task_labels [n]; task_predictions [n]; task_logits [n, l] or [n]; intervened_task_predictions [n];
        intervention_predictions, wrong_intervention_predictions [n, m], as `interventions` makes them;
        concept_embeddings, positive_embeddings, negative_embeddings [n, k, d]; active_concepts [n, k];
        image_embeddings, predicted_text_embeddings, reference_text_embeddings [n, D]; strings predicted_text [n] and
        reference_text [n]; localization_maps [n, k, h, w]; localization_peaks [n, k, 2]; part_locations [n, p, 2];
        deep_features [n, d, h, w], the last feature map; shallow_features [n, D, h, w], one folded to the same grid, as
        by `pixel_unshuffle`; cross_image_difference [n, d, h, w], the features of augmented images less the augmented
        features; ablated_task_predictions [n], with all concepts set to their means; groups [n], numbers 0 to 65535,
        such as hospitals, among which `shares` divides leakage.

        Of several `tasks` each has a column, [n, t] in place of [n] and [n, m, t] of [n, m]; task_logits have one for a
        task of two classes or a number, else one for each class, side by side.

        head: of this batch, in place of that given to `init`, such as an `embedding_head`.
        """
        plain = self._run._plain(self.split, cast("dict[str, Any]", tensors))
        if plain is None:
            self._rows += _rows(tensors)
            return
        if not self._is_open and self._ordinal:
            fault = Fault(f"this evaluation of '{self.split}' has ended; begin another one with run.evaluation")
            self._run._reject(fault, self.split, _rows(tensors))
            return
        if not self._is_open:
            self._begin()
        found = self._run._intervened(plain, head, self._rows)
        self._rows += self._run._log(self.split, self.step, self.epoch, found, self._panel, self._ordinal)

    def scores(self, *, timeout: float = 10.0, matrices: bool = False) -> Scores | None:
        """The scores of this pass once it has ended, waiting up to `timeout` seconds for them; else None."""
        return self._run._scores(self.split, self.step, self._ordinal, timeout, matrices)


def _is_over(began: float, timeout: float) -> bool:
    """Whether a question that might wait has waited for the whole time."""
    return 0.0 < timeout <= time.monotonic() - began


def _is_later(epoch: float | None, before: float | None) -> bool:
    """Whether it may be another epoch. Within one a step is evaluated again where gradients are accumulated."""
    return epoch is None or before is None or math.floor(epoch) > math.floor(before)


def _step_of(step: Any) -> int:
    """A step as a number. Raises Fault for what is none."""
    try:
        found = int(step)
        if found != step:  # a fraction, or a text
            found = -1
    except (TypeError, ValueError, OverflowError):
        found = -1
    if not 0 <= found < 1 << 64:
        raise Fault(f"step: got {step!r}, expected a whole number of at least 0")
    return found


def _rows(tensors: Mapping[str, Any]) -> int:
    for value in tensors.values():
        try:
            return len(value)
        except TypeError:
            continue
    return 0


def _settled_scores(sender: Sender, link: Link, key: PassKey) -> Scores | None:
    """The scores of a settled pass; None where there is no answer."""
    request = messages.GetScoresRequest(run=link.name, split=key.split, step=key.step, ordinal=key.ordinal)
    try:
        answer = sender.calls().get_scores(request, timeout=GRACE)
    except (grpc.RpcError, ValueError):  # ValueError: the channel is closed
        return None
    return Scores(answer.point) if answer.HasField("point") else None


_runs: weakref.WeakSet[Run] = weakref.WeakSet()


@atexit.register
def _finish_all() -> None:
    """Sends at exit what the job has not finished itself, within a few seconds."""
    deadline = time.monotonic() + EXIT_TIMEOUT
    error = uncaught()
    for run in list(_runs):
        run._error = error
        if run._process == os.getpid() or run._link.outstanding:
            run.finish(timeout=max(0.0, deadline - time.monotonic()))
    _collected.wait(max(0.0, deadline - time.monotonic()))
