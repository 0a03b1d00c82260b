"""The slope of a series with its standard error, where neighbouring values resemble each other."""

from __future__ import annotations

import numpy as np

BLOCKS = 12


def slope(seconds: list[float], values: list[float]) -> tuple[float, float]:
    """By the hour, of a line through the means of blocks, long enough to be nearly independent."""
    t, y = np.array(seconds) / 3600.0, np.array(values, float)
    blocks = [block for block in np.array_split(np.arange(t.size), BLOCKS) if block.size]
    t, y = np.array([t[block].mean() for block in blocks]), np.array([y[block].mean() for block in blocks])
    centred = t - t.mean()
    found = float((centred * y).sum() / (centred**2).sum())
    rest = y - y.mean() - found * centred
    return found, float(np.sqrt((rest**2).sum() / (t.size - 2) / (centred**2).sum()))
