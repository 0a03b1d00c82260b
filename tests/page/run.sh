#!/bin/sh
# The tests of the page in a real Chromium, and some of them in Firefox. Skipped without Chromium or Node, or without
# Firefox; where CONCEPTWATCH_REQUIRE lists what is missing, they fail. FONTS: a directory of the only fonts that the browsers
# are to have; by default those of the machine.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
chromium=${CONCEPTWATCH_CHROMIUM:-$(command -v chromium || command -v chromium-browser || command -v google-chrome || true)}
firefox=${CONCEPTWATCH_FIREFOX:-$(command -v firefox-esr || command -v firefox || true)}

missing() { # what, by name
    echo "NOT TESTED: $1, because $2 is not installed" >&2
    case ",${CONCEPTWATCH_REQUIRE:-}," in *",$2,"*) exit 1 ;; esac
}

command -v node >/dev/null && command -v npm >/dev/null || { missing "the page" node; exit 0; }
[ -n "$chromium" ] || { missing "the page" chromium; exit 0; }
[ -n "$firefox" ] || missing "the page in Firefox" firefox
sh "$here/../npm.sh"
if [ -n "${FONTS:-}" ]; then
    [ -d "$FONTS" ] || { echo "FONTS: there is no directory $FONTS" >&2; exit 2; }
    FONTCONFIG_FILE=$(mktemp)
    trap 'rm -f "$FONTCONFIG_FILE"' EXIT
    echo "<fontconfig><dir>$FONTS</dir></fontconfig>" >"$FONTCONFIG_FILE"
    export FONTCONFIG_FILE
fi
CONCEPTWATCH_CHROMIUM=$chromium CONCEPTWATCH_FIREFOX=$firefox node --test "$here"/*.test.mjs
