#!/bin/sh
# The types of the page's scripts, as their comments declare them. Without Node they are not checked, unless
# CONCEPTWATCH_REQUIRE lists it.
set -eu
here=$(cd "$(dirname "$0")" && pwd)

if ! command -v node >/dev/null || ! command -v npm >/dev/null; then
    echo "NOT CHECKED: the types of web/, because node is not installed" >&2
    case ",${CONCEPTWATCH_REQUIRE:-}," in *",node,"*) exit 1 ;; esac
    exit 0
fi
sh "$here/../npm.sh"
npm run --prefix "$here" --silent types
