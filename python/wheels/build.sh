#!/bin/sh
# Builds the wheels of these targets and the source package into target/wheels.
# usage: build.sh PYTHON TARGET…
#
# Linux: zig links, as its C library has the symbols of glibc 2.28, and no container is needed. macOS has a linker of
# its own and is built there.
set -eu
# maturin finds zig by the Python that is first.
PATH=$(dirname "$1"):$PATH
shift
cd "$(dirname "$0")/.."
out=$PWD/../target/wheels
rm -rf "$out"
for target; do
    if command -v rustup >/dev/null; then
        rustup target add "$target"
    fi
    case $target in
    *-linux-gnu) set -- --zig --compatibility manylinux_2_28 ;;
    *) set -- ;;
    esac
    maturin build --release --locked --target "$target" --out "$out" "$@"
done
maturin sdist --out "$out"
