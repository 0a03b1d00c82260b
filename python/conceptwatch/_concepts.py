"""Concepts with kinds of their own, for models that mix them; tasks are declared in the same form."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True)
class Binary:
    """A concept that is present or absent. activation_kind: by default that of the run."""

    name: str
    activation_kind: str | None = None


@dataclass(frozen=True)
class Categorical:
    """A concept of several classes, with an activation for each. activation_kind: by default that of the run."""

    name: str
    classes: int
    activation_kind: str | None = None


@dataclass(frozen=True)
class Continuous:
    """A concept that is a number, with one activation: a regressed quantity."""

    name: str


# An entry of `init(concepts=..., tasks=...)`: a name is of the run's kinds, and a pair has a number of classes as well.
Concept: TypeAlias = str | tuple[str, int] | Binary | Categorical | Continuous
Concepts: TypeAlias = int | Sequence[Concept]
