#!/bin/sh
# The tests of the page in a real Chromium. Skipped without Chromium or Node; where CONCEPTWATCH_REQUIRE lists what is
# missing, they fail. FONTS: a directory of the only fonts that Chromium is to have; by default those of the machine.
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
sh "$here/../npm.sh"
if [ -n "${FONTS:-}" ]; then
    [ -d "$FONTS" ] || { echo "FONTS: there is no directory $FONTS" >&2; exit 2; }
    FONTCONFIG_FILE=$(mktemp)
    trap 'rm -f "$FONTCONFIG_FILE"' EXIT
    echo "<fontconfig><dir>$FONTS</dir></fontconfig>" >"$FONTCONFIG_FILE"
    export FONTCONFIG_FILE
fi
CONCEPTWATCH_CHROMIUM=$browser node --test "$here"/*.test.mjs
