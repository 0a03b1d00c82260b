#!/bin/sh
# A picture of the page while the PyTorch example trains: sh take_picture.sh OUT.png. Beside it, as page-*.png, the pictures of
# the guide to the page on made-up runs, and those of kinds of models and states of runs.
#
# Takes python3 with PyTorch, Node and Chromium. CONCEPTWATCH_BINARY is the program, else that of the release build.
set -eu
[ $# -eq 1 ] || { echo "usage: sh $0 OUT.png" >&2; exit 2; }
out=$1
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
binary=${CONCEPTWATCH_BINARY:-$root/target/release/conceptwatch}
PYTHONPATH=$root/python${PYTHONPATH:+:$PYTHONPATH}
CONCEPTWATCH_CHROMIUM=${CONCEPTWATCH_CHROMIUM:-$(command -v chromium || command -v chromium-browser || command -v google-chrome || true)}
export PYTHONPATH CONCEPTWATCH_CHROMIUM

missing() { echo "the picture needs $1" >&2; exit 1; }
[ -x "$binary" ] || missing "$binary: cargo build --release"
[ -n "$CONCEPTWATCH_CHROMIUM" ] || missing "Chromium"
command -v npm >/dev/null || missing "Node with npm"
python3 -c 'import torch, grpc' || missing "PyTorch: $(command -v python3) -m pip install torch"
npm ci --prefix "$here" --no-audit --no-fund --silent

folder=$(mktemp -d)
sidecar='' camera='' training=''
stop() {
    for process in $camera $training $sidecar; do kill "$process" 2>/dev/null || true; done
    wait
    rm -rf "$folder"
}
trap stop EXIT
trap 'exit 1' INT TERM

# Scoring that steps back on a busy machine would leave out passes.
"$binary" serve --niceness 0 --cpu-share 1 --busy-cpu-share 1 --grpc-address 127.0.0.1:0 --http-address 127.0.0.1:0 --port-file "$folder/ports" --log warn &
sidecar=$!
until [ -s "$folder/ports" ]; do kill -0 "$sidecar"; sleep 0.1; done
read -r grpc http <"$folder/ports"

# The models are small: with more threads they train no faster, and the browser waits.
train() {
    OMP_NUM_THREADS=1 python3 "$root/python/examples/train_cbm.py" --epochs 400 --concept-weight "$1" --name "$2" --address "$grpc"
}
live="soft lambda 0.01"
train 5 "soft lambda 5" >"$folder/log" || { cat "$folder/log" >&2; exit 1; }
# The page is open before the second run begins, and its picture is taken after 120 of 400 epochs of 14 steps.
node "$here/screenshot.mjs" "http://$http/" "$out" --run "$live" --step 1680 &
camera=$!
train 0.01 "$live" >"$folder/log" &
training=$!
wait "$camera"
camera=''
wait "$training"
training=''
node "$here/pictures.mjs" "$(dirname "$out")"
python3 "$here/kinds.py" "$binary" "$(dirname "$out")"
