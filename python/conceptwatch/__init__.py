"""Streams concept activations, embeddings and labels of a training run to the conceptwatch sidecar."""

from . import _fork as _fork
from ._concepts import Binary, Categorical, Continuous
from ._diagnosis import Action, Diagnosis, Evidence, Finding, Verdict
from ._head import Head, embedding_head, percentiles
from ._information import mutual_information
from ._init import init
from ._interventions import interventions
from ._notebook import score
from ._plotting import plot
from ._prompts import prompt
from ._reading import Matrix, Runs, StoredRun, runs
from ._run import ConceptwatchError, Pass, Run
from ._scores import Estimates, Score, Scores
from ._source import ReadError
from ._stats import Stats
from ._version import __version__

__all__ = [
    "Action",
    "Binary",
    "Categorical",
    "ConceptwatchError",
    "Continuous",
    "Diagnosis",
    "Estimates",
    "Evidence",
    "Finding",
    "Head",
    "Matrix",
    "Pass",
    "ReadError",
    "Run",
    "Runs",
    "Score",
    "Scores",
    "Stats",
    "StoredRun",
    "Verdict",
    "__version__",
    "embedding_head",
    "init",
    "interventions",
    "mutual_information",
    "percentiles",
    "plot",
    "prompt",
    "runs",
    "score",
]
