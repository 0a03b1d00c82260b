#!/bin/sh
# Installs the npm packages of the tests: the browser's driver and the compiler of the page, and the types of resources in
# Kubernetes. Nothing where they are installed already, or where there is no npm: what needs them is skipped then.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
command -v npm >/dev/null || exit 0

for folder in page kubernetes; do
    lock=$here/$folder/package-lock.json installed=$here/$folder/node_modules/.installed
    cmp -s "$lock" "$installed" && continue
    echo "installing the npm packages of tests/$folder"
    npm ci --prefix "$here/$folder" --no-audit --no-fund --silent
    cp "$lock" "$installed"
done
