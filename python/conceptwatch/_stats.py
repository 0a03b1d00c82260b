"""Counts of what was done with everything a run logged."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


@dataclass
class Stats:
    """Counts since `init`. A dropped batch is in `batches_dropped` and its rows in `rows_dropped`, by reason:

    - `invalid`: wrong name, shape or type
    - `queue_full`: beyond `queue_bytes`
    - `refused`: by the sidecar
    - `run_refused`: the sidecar refuses the run itself
    - `superseded`: a newer attempt of the job has begun
    - `forked`: in a child of the connected process
    - `failed`: the connection broke each time the batch was sent
    - `unsent`: at `finish` or exit
    - `abandoned`: of an evaluation that was left by an exception
    """

    batches_queued: int = 0
    rows_queued: int = 0
    batches_sent: int = 0  # a batch counts each time it is sent, so this exceeds batches_queued after retries
    bytes_sent: int = 0
    batches_acknowledged: int = 0
    rows_acknowledged: int = 0  # accepted by the sidecar
    rows_duplicate: int = 0  # of these, rows it already had
    rows_left_out: int = 0  # not sent, because the sample could not use them or their pass was left out
    # Whole passes that were not sent because a newer one ended before the sidecar could have scored them.
    passes_left_out: int = 0
    batches_left_out: int = 0
    passes_ended: int = 0  # acknowledged ends of passes
    # Passes that the sidecar cannot lose any more, by what is in its history: `point`, `incomplete`, or the reason why
    # there is no point: `skipped`, `discarded`, `failed`.
    passes_settled: Counter[str] = field(default_factory=Counter)
    passes_unsettled: int = 0  # now: ended and not settled
    # Passes whose rows were not kept until they were settled, because `queue_bytes` had no room for them, and those
    # rows. They are lost only if the sidecar is before it has scored them.
    passes_unprotected: int = 0
    rows_unprotected: int = 0
    passes_sent_again: int = 0  # because the sidecar was restarted before they were settled
    passes_refused: int = 0  # ends of passes that the sidecar refused
    passes_abandoned: int = 0  # left by an exception, so that the sidecar discards them
    # Ends of passes that were given up, because 10,000 waited already, because sending one failed each time, or in a
    # child of the connected process. These passes are incomplete at best, and count as unsettled.
    ends_dropped: int = 0
    batches_dropped: Counter[str] = field(default_factory=Counter)
    rows_dropped: Counter[str] = field(default_factory=Counter)
    heads_failed: int = 0  # batches logged without predictions after interventions, because the head failed
    labels_unknown: int = 0  # with `soft_labels`: labels of binary concepts that are too uncertain
    retries: int = 0  # connections that failed, or that the sidecar told to wait
    queue_bytes: int = 0  # now waiting, or sent and not acknowledged
    unsettled_bytes: int = 0  # now kept of passes that are not settled; with queue_bytes at most the limit of `init`

    def drop(self, reason: str, batches: int, rows: int) -> None:
        self.batches_dropped[reason] += batches
        self.rows_dropped[reason] += rows
