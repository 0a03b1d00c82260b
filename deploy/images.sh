#!/bin/sh
# Compares the images that deploy/ names with the digests in images.lock, so that a tag that was moved is seen.
# usage: images.sh [--record]    needs docker with buildx, and a network
set -eu
here=$(cd "$(dirname "$0")" && pwd)
lock=$here/images.lock

images() {
    { sed -n 's/^ *image: *//p' "$here/compose.yaml" "$here/compose.hub.yaml"; sed -n 's/^FROM \([^ ]*\).*/\1/p' "$here/Dockerfile"; } |
        grep -v '^conceptwatch:' | sort -u
}

if [ "${1:-}" != --record ] && [ ! -f "$lock" ]; then
    echo "images.sh: no digests are recorded yet; record them with: sh deploy/images.sh --record" >&2
    exit 1
fi

found=$(mktemp)
trap 'rm -f "$found"' EXIT
for image in $(images); do
    digest=$(docker buildx imagetools inspect --format '{{.Manifest.Digest}}' "$image")
    echo "$image $digest" >>"$found"
done
if [ "${1:-}" = --record ]; then
    cp "$found" "$lock"
elif ! diff -u "$lock" "$found"; then
    echo "images.sh: the images differ from $lock; read what changed, then run deploy/images.sh --record" >&2
    exit 1
fi
