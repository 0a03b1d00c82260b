"""The version of this package, and the sidecars that it works with."""

from importlib import metadata

try:
    __version__ = metadata.version("conceptwatch")
except metadata.PackageNotFoundError:  # run from a source tree
    __version__ = "0+source"


def same_release(sidecar: str, client: str) -> bool:
    """Whether versions are equal up to the patch number. An unknown one of the sidecar counts as equal.

    A client that runs from a checkout has no release number.
    """
    return not sidecar or "+" in client or sidecar.split(".")[:2] == client.split(".")[:2]
