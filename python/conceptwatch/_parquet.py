"""`python -m conceptwatch export --format parquet`: the tables of `conceptwatch export`, as Parquet.

The program writes CSV, which pyarrow or Polars turn into Parquet a part at a time. A crate for it would add 38 s of CPU
time to every build, and who reads Parquet has one of the two.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

TABLES = ("runs", "points", "scores", "concepts", "pairs", "unscored", "rows")
# Columns that hold something else than text, in whichever table. A "time" is Unix seconds in CSV, and a UTC timestamp
# in Parquet.
TYPES = {
    **dict.fromkeys(("started", "time"), "time"),
    **dict.fromkeys(("finished", "provisional", "incomplete", "superseded"), "bool"),
    **dict.fromkeys(("step", "rows", "rows_seen", "seed", "id"), "uint64"),
    **dict.fromkeys(("world_size", "launch", "restart", "ordinal", "neighbours", "catalogue_version"), "uint32"),
    **dict.fromkeys(("epoch", "value", "standard_error", "p_value", "change_error", "age", "q"), "float64"),
    **dict.fromkeys(("tie_fraction", "seconds", "local", "term", "task_label"), "float64"),
    "group": "int32",
}
PACKAGES = ("pyarrow", "polars")


def wants_parquet(arguments: list[str]) -> bool:
    """Whether these arguments of the program ask for what it leaves to this package."""
    return arguments[:1] == ["export"] and _options(arguments)[0].format == "parquet"


def export(binary: str, arguments: list[str]) -> int:
    """Runs the program for CSV, and writes the same tables as Parquet. Returns the exit status."""
    package = next((name for name in PACKAGES if find_spec(name) is not None), None)
    if package is None:
        return _failed("format: parquet needs pyarrow or polars; install one of them, or export csv")
    stated, others = _options(arguments)
    to = stated.to
    if to is None:
        return subprocess.run([binary, *arguments], check=False).returncode  # it says what is missing
    names = [f"{kind}.parquet" for kind in TABLES]
    taken = next((to / name for name in names if (to / name).exists()), None)
    if taken is not None:
        return _failed(f"to: {taken} exists already; choose another directory")
    try:
        to.mkdir(parents=True, exist_ok=True)
        # On the same file system, which has the room for what is asked for.
        with tempfile.TemporaryDirectory(prefix=".export-", dir=to) as scratch:
            command = [binary, *others, "--format", "csv", "--to", f"{scratch}/csv", "--as-is"]
            done = subprocess.run(command, check=False, stdout=subprocess.PIPE, text=True)
            if done.returncode != 0:
                return done.returncode
            written = []
            for source in sorted(Path(scratch, "csv").glob("*.csv")):
                target = Path(scratch, f"{source.stem}.parquet")
                (_by_pyarrow if package == "pyarrow" else _by_polars)(source, target)
                source.unlink()
                written.append(target)
            for target in written:
                shutil.move(target, to / target.name)
    except OSError as error:
        return _failed(f"to: {to} cannot be written: {error.strerror or error}")
    print(done.stdout.replace(f"{scratch}/csv", str(to)), end="")
    return 0


def _failed(message: str) -> int:
    print(f"conceptwatch export: {message}", file=sys.stderr)
    return 2


def _options(arguments: list[str]) -> tuple[argparse.Namespace, list[str]]:
    """The format and the directory, as far as they are stated, and the other arguments."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--format", nargs="?")
    parser.add_argument("--to", nargs="?", type=Path)
    return parser.parse_known_args(arguments)


def _by_pyarrow(source: Path, target: Path) -> None:
    arrow, csv, parquet = (import_module(name) for name in ("pyarrow", "pyarrow.csv", "pyarrow.parquet"))
    with source.open(encoding="utf-8") as file:
        header = file.readline().rstrip("\n").split(",")
    times = [place for place, name in enumerate(header) if TYPES.get(name) == "time"]
    aliases = {name: TYPES.get(name, "string") for name in header} | {header[place]: "float64" for place in times}
    chosen = {name: arrow.type_for_alias(alias) for name, alias in aliases.items()}
    compute, timestamp = import_module("pyarrow.compute"), arrow.timestamp("us", "UTC")
    options = csv.ConvertOptions(column_types=chosen, null_values=[""], strings_can_be_null=True)
    parsing = csv.ParseOptions(newlines_in_values=True)
    with csv.open_csv(source, convert_options=options, parse_options=parsing) as rows:
        schema = rows.schema
        for place in times:
            schema = schema.set(place, arrow.field(header[place], timestamp))
        with parquet.ParquetWriter(target, schema, compression="zstd") as writer:
            for batch in rows:
                columns = list(batch.columns)
                for place in times:
                    microseconds = compute.round(compute.multiply(columns[place], 1e6)).cast("int64")
                    columns[place] = microseconds.cast(timestamp)
                writer.write_batch(arrow.record_batch(columns, schema=schema))


def _by_polars(source: Path, target: Path) -> None:
    polars = import_module("polars")
    named = {"float64": "Float64", "time": "Float64", "uint64": "UInt64", "uint32": "UInt32"}
    named |= {"int32": "Int32", "bool": "Boolean"}
    with source.open(encoding="utf-8") as file:
        header = file.readline().rstrip("\n").split(",")
    schema = {name: getattr(polars, named.get(TYPES.get(name, ""), "String")) for name in header}
    times = [name for name in header if TYPES.get(name) == "time"]
    microseconds = (polars.col(times) * 1e6).round().cast(polars.Int64)
    rows = polars.scan_csv(source, schema=schema)
    rows.with_columns(microseconds.cast(polars.Datetime("us", "UTC"))).sink_parquet(target)
