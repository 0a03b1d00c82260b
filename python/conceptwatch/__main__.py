"""`python -m conceptwatch`: the program, with its subcommands."""

from __future__ import annotations

import os
import platform
import sys
from importlib.metadata import PackageNotFoundError, version

from ._files import score
from ._parquet import export, wants_parquet
from ._sidecar import find_binary


def _versions() -> str:
    """This interpreter, and the packages that a job of it uses."""
    found = []
    for name in ("conceptwatch", "grpcio", "protobuf", "numpy", "torch"):
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            found.append(f"{name} not installed")
    return f"python: {platform.python_version()}, {sys.executable}; {', '.join(found)}"


def main() -> int:
    binary = find_binary()
    if binary is None:
        print(
            "conceptwatch: the program was not found; install the package with pip, or set CONCEPTWATCH_BINARY",
            file=sys.stderr,
        )
        return 2
    if wants_parquet(sys.argv[1:]):
        return export(binary, sys.argv[1:])
    if sys.argv[1:2] == ["score"]:
        status = score(binary, sys.argv[2:])
        if status is not None:
            return status
    if sys.argv[1:] == ["doctor"]:
        print(_versions(), flush=True)
    try:
        # In place of this process, so signals and the exit status are the program's own.
        os.execv(binary, ["conceptwatch", *sys.argv[1:]])  # noqa: S606 (the package's own program)
    except OSError as error:
        print(f"conceptwatch: {binary} cannot be started: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
