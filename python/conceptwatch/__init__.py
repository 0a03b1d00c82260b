"""Streams concept activations, embeddings and labels of a training run to the conceptwatch sidecar."""

from . import _fork as _fork
from ._diagnosis import Diagnosis, Evidence, Finding
from ._head import Head, embedding_head, percentiles
from ._interventions import interventions
from ._prompts import prompt
from ._run import ConceptwatchError, Pass, Run, init
from ._scores import Score, Scores
from ._stats import Stats
from ._version import __version__

__all__ = [
    "ConceptwatchError",
    "Diagnosis",
    "Evidence",
    "Finding",
    "Head",
    "Pass",
    "Run",
    "Score",
    "Scores",
    "Stats",
    "__version__",
    "embedding_head",
    "init",
    "interventions",
    "percentiles",
    "prompt",
]
