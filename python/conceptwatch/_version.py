"""The version of this package."""

from importlib import metadata

try:
    __version__ = metadata.version("conceptwatch")
except metadata.PackageNotFoundError:  # run from a source tree
    __version__ = "0+source"
