"""Times conceptwatch's estimators beside others, in turns on the same machine, and prints tables.

    python peers.py PEERS_BINARY [--quick]

Times are of one thread, medians; a ratio above 1 means that conceptwatch is faster. Where a peer would take minutes, it
is timed on a sample of the estimates and scaled: such times are marked with ~.
"""

import argparse
import datetime
import json
import os
import platform
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

# One thread each.
for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

import ennemi
import infomeasure
import numpy as np
import sklearn
from sklearn.feature_selection._mutual_info import _compute_mi_cc, _compute_mi_cd
from sklearn.neighbors import KDTree, NearestNeighbors

NEIGHBOURS = 3


class Program:
    """The Rust side: one request a line, one answer a line."""

    def __init__(self, binary: str, folder: Path) -> None:
        self.process = subprocess.Popen([binary], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.folder = folder

    def ask(self, **request: object) -> dict[str, float]:
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def file(self, name: str, array: np.ndarray) -> str:
        path = self.folder / name
        np.ascontiguousarray(array).tofile(path)
        return str(path)


def timed(call, seconds: float) -> float:
    """Median time of as many calls as fit into `seconds`, at least three."""
    times = []
    begin = time.perf_counter()
    while len(times) < 3 or time.perf_counter() - begin < seconds:
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


# --- data ---


def columns(kind: str, rows: int, count: int, ties: float, random: np.random.Generator) -> np.ndarray:
    """`count` float32 columns; the share `ties` of each repeats other values of its column."""
    values = random.standard_normal((count, rows))
    if kind == "rho 0.9":
        values = np.sqrt(0.9) * random.standard_normal(rows) + np.sqrt(0.1) * values
    elif kind == "saturated":
        values = 1 / (1 + np.exp(-12 * values))
    elif kind == "constant but few":
        values = np.where(random.random(values.shape) < 0.95, 0.5, values)
    elif kind == "lattice":
        values = np.round(values * 4)
    values = values.astype(np.float32)
    tied = int(rows * ties) // 2
    for column in values:
        chosen = random.permutation(rows)[: 2 * tied]
        column[chosen[:tied]] = column[chosen[tied:]]
    return values


class Sample:
    """A model that leaks a little: activations, labels, a task, and embeddings where they are asked for."""

    def __init__(self, rows: int, concepts: int, classes: int, width: int, random: np.random.Generator) -> None:
        self.labels = (random.random((rows, concepts)) < 0.5).astype(np.uint8)
        signed = 2.0 * self.labels - 1
        logits = signed + 0.3 * np.roll(signed, -1, axis=1) + 2 * random.standard_normal((rows, concepts))
        self.activations = (1 / (1 + np.exp(-logits))).astype(np.float32)
        self.task = random.integers(0, classes, rows).astype(np.int32)
        noise = (lambda: random.standard_normal((rows, concepts, width), dtype=np.float32)) if width else None
        self.embeddings = (
            [(sign * signed[:, :, None] + 2 * noise()).astype(np.float32) for sign in (1, 1, -1)] if width else []
        )
        self.width = width

    def files(self, program: Program) -> dict[str, object]:
        rows, concepts = self.labels.shape
        embeddings = [program.file(f"e{i}", each) for i, each in enumerate(self.embeddings)]
        return {
            "rows": rows,
            "concepts": concepts,
            "activations": program.file("a", self.activations),
            "labels": program.file("c", self.labels),
            "task": program.file("y", self.task),
            "width": self.width,
            "embeddings": embeddings,
        }


# --- scikit-learn ---


def sklearn_vectors(x: np.ndarray, labels: np.ndarray) -> None:
    """What scikit-learn's estimator for one column does, for vectors: the published code path."""
    radius = np.empty(len(labels))
    search = NearestNeighbors()
    for label in np.unique(labels):
        own = labels == label
        search.set_params(n_neighbors=min(NEIGHBOURS, own.sum() - 1))
        search.fit(x[own])
        radius[own] = np.nextafter(search.kneighbors()[0][:, -1], 0)
    KDTree(x).query_radius(x, radius, count_only=True, return_distance=False)


def scaled(calls: list, total: int) -> float:
    """The time of `total` estimates, from the mean of a few."""
    start = time.perf_counter()
    for call in calls:
        call()
    return (time.perf_counter() - start) / len(calls) * total


def pairs_of(sample: Sample, count: int, random: np.random.Generator) -> list:
    wide = sample.activations.astype(np.float64)
    chosen = [random.choice(wide.shape[1], 2, replace=False) for _ in range(count)]
    return [lambda i=i, j=j: _compute_mi_cc(wide[:, i], wide[:, j], NEIGHBOURS) for i, j in chosen]


def whole_scores(program: Program, quick: bool) -> None:
    random = np.random.default_rng(0)
    cut = 4 if quick else 1
    print("\n## Whole scores against scikit-learn\n")
    print("`tie_aware`, everything a score needs (sorting, the true information, normalisers, errors) included.\n")
    print("| work | estimates | scikit-learn, s | conceptwatch, s | ratio |")
    print("|---|---:|---:|---:|---:|")

    def row(work: str, ids: list[str], sample: Sample, peer_calls: list, total: int) -> None:
        files = sample.files(program)
        before = program.ask(task="scores", ids=ids, sample=files, threads=1, seconds=0)["seconds"]
        peer = scaled(peer_calls, total)
        after = program.ask(task="scores", ids=ids, sample=files, threads=1, seconds=0)["seconds"]
        ours = statistics.mean((before, after))
        print(f"| {work} | {total:,} | ~{peer:.1f} | {ours:.3f} | {peer / ours:.0f} |", flush=True)

    for concepts, rows, calls in ((112, 2048, 64), (112, 10_000, 12), (312, 1024, 96)):
        sample = Sample(rows, concepts, 200, 0, random)
        total = concepts * (concepts + 1) // 2
        peer_calls = pairs_of(sample, calls // cut, random)
        row(f"`icl`, k = {concepts}, N = {rows:,}", ["icl"], sample, peer_calls, total)
    sample = Sample(5794, 112, 200, 0, random)
    wide = sample.activations.astype(np.float64)
    calls = [lambda i=i: _compute_mi_cd(wide[:, i], sample.task, NEIGHBOURS) for i in range(24 // cut)]
    row("`ctl`, k = 112, 200 classes, N = 5,794", ["ctl"], sample, calls, 112)
    sample = Sample(2048, 112, 200, 16, random)
    vectors = sample.embeddings[0].astype(np.float64)
    labels = [sample.task, *(sample.labels[:, j] for j in range(11))]
    calls = [lambda i=i, y=y: sklearn_vectors(vectors[:, i], y) for i in range(4 // min(cut, 2)) for y in labels]
    ids = ["embedding_ct", "embedding_ic", "embedding_self"]
    row("CEM, k = 112, d = 16, N = 2,048: `embedding_ct`, `_ic`, `_self`", ids, sample, calls, 112 * 113)

    print("\n| | seconds |\n|---|---:|")
    files = sample.files(program)
    alone = program.ask(task="scores", ids=["embedding_ct"], sample=files, threads=1, seconds=0)["seconds"]
    align = program.ask(task="scores", ids=["alignment_leakage"], sample=files, threads=1, seconds=0)["seconds"]
    print(f"| `embedding_ct` as first score, same sample | {alone:.2f} |")
    print(f"| `alignment_leakage` | {align:.2f}, {align / alone:.2f} times |")
    sample = Sample(2048, 112, 200, 0, random)
    files = sample.files(program)
    one, two = (
        statistics.median(
            program.ask(task="scores", ids=["icl"], sample=files, threads=threads, seconds=0)["seconds"]
            for _ in range(3)
        )
        for threads in (1, 2)
    )
    print(f"| `icl`, k = 112, N = 2,048 on two threads | {two:.3f}, {one / two:.2f} times as fast as one |")


def matrix_of_pairs(program: Program, quick: bool) -> None:
    random = np.random.default_rng(1)
    print("\n## Distance from a sort\n")
    print("Time of one pair of columns that are sorted already, over the time to sort one of them (`sort_unstable`).\n")
    print("| data | ties, % | N | ns a row | sorts |\n|---|---:|---:|---:|---:|")
    kinds = [("independent", 0), ("independent", 0.1), ("independent", 0.5), ("rho 0.9", 0), ("saturated", 0)]
    kinds += [("lattice", 0), ("constant but few", 0)]
    for kind, ties in kinds:
        for rows in (1024, 4096, 16_384):
            values = columns(kind, rows, 12, ties, random).astype(np.float64)
            answer = program.ask(
                task="matrix", columns=program.file("m", values), rows=rows, seconds=0.1 if quick else 0.5
            )
            ns, sorts = answer["seconds"] / rows * 1e9, answer["seconds"] / answer["sort"]
            print(f"| {kind} | {100 * ties:.0f} | {rows:,} | {ns:.0f} | {sorts:.1f} |", flush=True)


def one_pair(program: Program, quick: bool, infomeasure_rs: bool) -> None:
    random = np.random.default_rng(2)
    peers = ["scikit-learn", "ennemi", "infomeasure", "kiddo"] + ["infomeasure-rs"] * infomeasure_rs
    print("\n## One pair of columns, from nothing but their values\n")
    print("How many times as long each peer takes.\n")
    print("| data | ties, % | N | conceptwatch, ms | " + " | ".join(peers) + " |")
    print("|---|---:|---:|---:|" + "---:|" * len(peers))
    least: dict[str, float] = {}
    for kind in ("independent", "rho 0.9", "saturated"):
        for ties in (0, 0.1, 0.5):
            for rows in (256, 1024, 4096, 16_384):
                x, y = columns(kind, rows, 2, ties, random).astype(np.float64)
                files = {"x": program.file("x", x), "y": program.file("y", y)}
                seconds = 0.05 if quick else 0.2

                def ours(who: str, files: dict = files, seconds: float = seconds) -> float:
                    request = {"task": "pair", "who": who, "neighbours": NEIGHBOURS, "seconds": seconds}
                    return program.ask(**request, **files)["seconds"]

                calls = {
                    "scikit-learn": lambda x=x, y=y: _compute_mi_cc(x, y, NEIGHBOURS),
                    "ennemi": lambda x=x, y=y: ennemi.estimate_mi(y, x, k=NEIGHBOURS),
                    "infomeasure": lambda x=x, y=y: infomeasure.mutual_information(
                        x, y, approach="ksg", k=NEIGHBOURS, noise_level=0
                    ),
                }
                own, ratios = ours("conceptwatch"), []
                for peer in peers:
                    try:
                        taken = timed(calls[peer], seconds) if peer in calls else ours(peer)
                    except Exception as error:  # a peer that fails on the data is reported, not hidden
                        ratios.append(type(error).__name__)
                        continue
                    own = min(own, ours("conceptwatch"))
                    ratios.append(f"{taken / own:.1f}")
                    least[peer] = min(least.get(peer, np.inf), taken / own)
                cells = " | ".join(ratios)
                print(f"| {kind} | {100 * ties:.0f} | {rows:,} | {own * 1e3:.3f} | {cells} |", flush=True)
    print("\nLeast in the grid: " + ", ".join(f"{peer} {ratio:.1f}" for peer, ratio in least.items()) + ".")


def processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary")
    parser.add_argument("--quick", action="store_true", help="fewer and shorter turns")
    parser.add_argument("--infomeasure-rs", action="store_true", help="the binary was built with the crate infomeasure")
    arguments = parser.parse_args()
    print("# Against other estimators\n")
    print(
        f"`make bench-peers`, {datetime.date.today()}: {processor()}, {os.cpu_count()} cores, one thread unless said "
        f"otherwise; Python {platform.python_version()}, NumPy {np.__version__}, scikit-learn {sklearn.__version__}. Peers "
        "and conceptwatch take turns in one run. Times marked ~ are from a sample of the estimates, scaled."
    )
    with tempfile.TemporaryDirectory() as folder:
        program = Program(arguments.binary, Path(folder))
        whole_scores(program, arguments.quick)
        matrix_of_pairs(program, arguments.quick)
        one_pair(program, arguments.quick, arguments.infomeasure_rs)


if __name__ == "__main__":
    main()
