#!/bin/sh
# The tests of the page in a real Chromium. Skipped without Chromium or Node; where CONCEPTWATCH_REQUIRE lists what is
# missing, they fail.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
browser=${CONCEPTWATCH_CHROMIUM:-$(command -v chromium || command -v chromium-browser || command -v google-chrome || true)}

missing() {
    echo "NOT TESTED: the page, because $1 is not installed" >&2
    case ",${CONCEPTWATCH_REQUIRE:-}," in *",$1,"*) exit 1 ;; esac
    exit 0
}

command -v node >/dev/null || missing node
command -v npm >/dev/null || missing node
[ -n "$browser" ] || missing chromium
npm ci --prefix "$here" --no-audit --no-fund --silent
CONCEPTWATCH_CHROMIUM=$browser node --test "$here"/*.test.mjs
