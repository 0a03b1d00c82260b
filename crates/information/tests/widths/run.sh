#!/bin/sh
# The estimators give the same bits whatever width of vector instructions they are compiled for.
set -eu
cd "$(dirname "$0")/../../../.."
found=$(mktemp -d)
trap 'rm -rf "$found"' EXIT

bits() { # features, name
    cargo run --locked --quiet -p information --features "$1" --example bits >"$found/$2"
}
bits "" widest
bits at-most-avx2 avx2
bits plain plain
[ "$(wc -l <"$found/widest")" -gt 1000 ] || { echo "too few estimates were compared" >&2; exit 1; }
for width in avx2 plain; do
    cmp "$found/widest" "$found/$width" || { diff "$found/widest" "$found/$width" | head -20 >&2; exit 1; }
done
echo "widths: $(wc -l <"$found/widest") estimates have the same bits at every width"
