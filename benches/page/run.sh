#!/bin/sh
# Fills a directory with curves, opens a sidecar on it and measures its page: run.sh FOLDER, where cargo has put the programs.
# Further arguments go to tests/page/real.mjs.
set -eu
here=$(cd "$(dirname "$0")/../.." && pwd)
built=$(cd "$1" && pwd)
shift
# In memory where possible: writing 100,000 points durably is slow and does not affect the page.
scratch=$(mktemp -d "$([ -w /dev/shm ] && echo /dev/shm || echo "${TMPDIR:-/tmp}")/conceptwatch-page.XXXXXX")
sidecar=
# The sidecar writes its curves to the end, so it ends first.
trap '[ -z "$sidecar" ] || { kill "$sidecar" && wait "$sidecar"; } 2>/dev/null || true; rm -rf "$scratch"' EXIT INT TERM
"$built/examples/filled" "$scratch/curves" "${RUNS:-100}" "${POINTS:-1000}" "${CONCEPTS:-112}"
du -sh "$scratch/curves" >&2
"${CONCEPTWATCH_BINARY:-$built/conceptwatch}" serve --data-dir "$scratch/curves" --history-mib 4096 --log warn \
    --grpc-address 127.0.0.1:0 --http-address 127.0.0.1:0 --port-file "$scratch/ports" &
sidecar=$!
for _ in $(seq 600); do
    [ -s "$scratch/ports" ] && break
    kill -0 "$sidecar" && sleep 0.1
done
page=$(sed 's/.* //' "$scratch/ports")
timeout 1200 node "$here/tests/page/real.mjs" "http://$page" "$@"
