"""The slope of a series with its standard error, where neighbouring values resemble each other."""

from __future__ import annotations

import numpy as np

BLOCKS = 12


def block_means(values: list[float]) -> list[float]:
    """The means of successive blocks: a line rises in every block, a late plateau does not."""
    return [float(block.mean()) for block in np.array_split(np.array(values, float), BLOCKS) if block.size]


def slope(seconds: list[float], values: list[float]) -> tuple[float, float]:
    """By the hour, of a line through the means of blocks, long enough to be nearly independent."""
    t, y = np.array(block_means(seconds)) / 3600.0, np.array(block_means(values))
    centred = t - t.mean()
    found = float((centred * y).sum() / (centred**2).sum())
    rest = y - y.mean() - found * centred
    return found, float(np.sqrt((rest**2).sum() / (t.size - 2) / (centred**2).sum()))
