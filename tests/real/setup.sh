#!/bin/sh
# Installs the real peers (servers, client SDKs, conformance suite) into target/real.
set -eu

HERE=$(CDPATH= cd -- "$(dirname -- "$0")" && pwd)
ROOT=$(CDPATH= cd -- "$HERE/../.." && pwd)
PEERS="$ROOT/target/real"
STAMP="$PEERS/.installed"

need() {
    command -v "$1" >/dev/null 2>&1 || {
        echo "setup.sh: '$1' was not found: $2" >&2
        exit 1
    }
}

checksum() {
    cat "$HERE/setup.sh" "$HERE/package.json" "$HERE/package-lock.json" "$HERE/requirements.txt" |
        cksum
}

if [ -f "$STAMP" ] && [ "$(cat "$STAMP")" = "$(checksum)" ]; then
    echo "real peers are installed in target/real"
    exit 0
fi

need node "install Node.js 20 or newer (Debian: apt install nodejs)."
need npm "install npm 10 or newer (Debian: apt install npm)."
need python3 "install Python 3.11 or newer (Debian: apt install python3)."
python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
    echo "setup.sh: Python 3.11 or newer is needed: install it and put it first in PATH." >&2
    exit 1
}
python3 -c 'import ensurepip, venv' 2>/dev/null || {
    echo "setup.sh: Python has no venv module: install it (Debian: apt install python3-venv)." >&2
    exit 1
}

mkdir -p "$PEERS"
rm -f "$STAMP"

cp "$HERE/package.json" "$HERE/package-lock.json" "$HERE/.npmrc" "$PEERS/"
# Only errors: a warning that the suite wants Node 22 is settled by the Node 22 that comes along.
(cd "$PEERS" && npm ci --no-audit --no-fund --loglevel=error)

rm -rf "$PEERS/venv"
python3 -m venv "$PEERS/venv"
"$PEERS/venv/bin/python" -m pip install --quiet --disable-pip-version-check \
    --require-hashes -r "$HERE/requirements.txt"

checksum >"$STAMP"
echo "real peers were installed in target/real"
