#!/bin/sh
# What is in target/wheels, on a machine without a compiler: the wheel for this machine is installed and trains the demo;
# that of the other architecture scores a file to the same values, in an emulator where one is installed.
# usage: check.sh PYTHON
set -eu
tools=$(dirname "$1")
cd "$(dirname "$0")/../.."
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

for wheel in target/wheels/*linux*.whl; do
    "$tools/auditwheel" show "$wheel" | grep -q '"manylinux_2_28_' || {
        echo "check.sh: $wheel needs more than glibc 2.28 has" >&2
        exit 1
    }
done

own=$(ls target/wheels/*"$(uname -m)".whl)
python3 -m venv "$scratch/venv"
# No cargo and no compiler.
PATH=$scratch/venv/bin
export PATH
/usr/bin/env -u CONCEPTWATCH_BINARY "$scratch/venv/bin/pip" install --quiet --disable-pip-version-check "$own"
python -m conceptwatch --version
XDG_DATA_HOME=$scratch python -m conceptwatch demo
PATH=$scratch/venv/bin:/usr/bin:/bin

cat >"$scratch/outputs.py" <<'PYTHON'
import sys

import numpy as np

random = np.random.default_rng(0)
labels = random.integers(0, 2, (500, 4))
activations = np.clip(0.7 * labels + 0.3 * random.random((500, 4)), 0, 1).astype(np.float32)
np.savez(sys.argv[1], concept_activations=activations, concept_labels=labels, task_labels=labels.sum(1) % 3)
PYTHON
python "$scratch/outputs.py" "$scratch/outputs.npz"
scores='import json, sys; print({k: round(v.get("value") or 0, 9) for k, v in json.load(sys.stdin)["scores"].items()})'
expected=$(conceptwatch score "$scratch/outputs.npz" --json | python -c "$scores")
for wheel in target/wheels/*linux*.whl; do
    machine=${wheel##*_28_}
    machine=${machine%.whl}
    [ "$machine" != "$(uname -m)" ] || continue
    if ! command -v "qemu-$machine" >/dev/null || [ ! -d "/usr/$machine-linux-gnu" ]; then
        echo "not run: $wheel, which needs qemu-user and the C library of $machine (Debian: libc6-arm64-cross)"
        continue
    fi
    python -m zipfile -e "$wheel" "$scratch/$machine"
    program=$(ls "$scratch/$machine"/*.data/scripts/conceptwatch)
    chmod +x "$program"
    emulated() { "qemu-$machine" -L "/usr/$machine-linux-gnu" "$program" "$@"; }
    emulated --version
    found=$(emulated score "$scratch/outputs.npz" --json | python -c "$scores")
    [ "$found" = "$expected" ] || {
        printf 'check.sh: %s scores differently:\n%s\n%s\n' "$wheel" "$found" "$expected" >&2
        exit 1
    }
    echo "$wheel: the scores of $(uname -m)"
done
