#!/bin/sh
# Starts two hubs over the database of database.sh; Ctrl-C ends them.
# usage: hubs.sh DIRECTORY [PORT]      ports PORT to PORT + 11, by default 7810; the pages are at PORT + 1 and PORT + 11
set -eu
[ $# -ge 1 ] && [ -r "$1/url" ] || { echo "usage: hubs.sh DIRECTORY, the one that database.sh was given" >&2 && exit 2; }
store=$(cat "$1/url") port=${2:-7810}
conceptwatch serve --store "$store" --grpc-address "127.0.0.1:$port" --http-address "127.0.0.1:$((port + 1))" &
one=$!
conceptwatch serve --store "$store" --grpc-address "127.0.0.1:$((port + 10))" --http-address "127.0.0.1:$((port + 11))" &
trap 'kill $one $! 2>/dev/null || true; wait' INT TERM
wait
