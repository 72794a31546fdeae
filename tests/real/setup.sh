#!/bin/sh
# Installs the real peers (servers, client SDKs, conformance suite, nginx) into target/real, and
# builds those on the Rust SDK there.
set -eu

HERE=$(CDPATH= cd -- "$(dirname -- "$0")" && pwd)
ROOT=$(CDPATH= cd -- "$HERE/../.." && pwd)
PEERS="$ROOT/target/real"
STAMP="$PEERS/.installed"
NGINX="$PEERS/nginx"

need() {
    command -v "$1" >/dev/null 2>&1 || {
        echo "setup.sh: '$1' was not found: $2" >&2
        exit 1
    }
}

checksum() {
    cat "$HERE/setup.sh" "$HERE/package.json" "$HERE/package-lock.json" "$HERE/requirements.txt" \
        "$HERE/rmcp/Cargo.toml" "$HERE/rmcp/Cargo.lock" "$HERE/rmcp/src/bin/"*.rs | cksum
}

# Whether this nginx runs, and was built with what the tests need of it.
is_usable() {
    about=$("$1" -V 2>&1) || return 1
    case $about in *http_ssl_module*) ;; *) return 1 ;; esac
    case $about in *http_v2_module*) ;; *) return 1 ;; esac
}

# apt-get with lists of its own: those of the machine may be missing or old, and only root may
# renew them.
private_apt() {
    apt-get -qq -o Dir::State::Lists="$NGINX/apt/lists" -o Dir::Cache="$NGINX/apt/cache" \
        -o APT::Sandbox::User=root "$@"
}

# Unpacks Debian packages into target/real/nginx/root; nothing is installed.
unpack() {
    for package in "$@"; do
        (cd "$NGINX/apt" && private_apt download "$package") &&
            dpkg-deb -x "$NGINX/apt/$package"_*.deb "$NGINX/root" || return 1
    done
}

fetch_nginx() {
    need apt-get "it would fetch nginx; install nginx, with TLS and HTTP/2, by other means."
    need dpkg-deb "it would unpack nginx; install nginx, with TLS and HTTP/2, by other means."
    mkdir -p "$NGINX/apt/lists/partial" "$NGINX/apt/cache/archives/partial" "$NGINX/root"
    # Its clean-up may fail where the machine's cache is not ours; what counts is the download.
    private_apt update || true
    # Where nginx is a name for others (before Debian 12), nginx-light has the program.
    for package in nginx nginx-light; do
        unpack "$package" || break
        [ ! -x "$NGINX/root/usr/sbin/nginx" ] || break
    done
    # A machine with few packages lacks some of its libraries.
    program="$NGINX/root/usr/sbin/nginx"
    if [ -x "$program" ] && ! "$program" -v >/dev/null 2>&1; then
        depends=$(dpkg-deb -f "$NGINX/apt/$package"_*.deb Depends)
        unpack $(echo "$depends" | tr ',' '\n' | awk '/lib/ && $1 != "libc6" { print $1 }') || true
    fi
    rm -rf "$NGINX/apt"
}

# Leaves target/real/nginx/nginx, which runs the machine's nginx or one of our own.
provide_nginx() {
    rm -rf "$NGINX"
    mkdir -p "$NGINX"
    # Debian keeps it where only root looks for programs.
    program=$(PATH="$PATH:/usr/sbin" command -v nginx) || program=
    if [ -z "$program" ] || ! is_usable "$program"; then
        fetch_nginx
    fi
    libraries=$(find "$NGINX" -name 'lib*.so.*' -exec dirname {} \; | sort -u | paste -s -d :)
    cat >"$NGINX/nginx" <<SCRIPT
#!/bin/sh
LD_LIBRARY_PATH='$libraries' exec '$program' "\$@"
SCRIPT
    chmod +x "$NGINX/nginx"
    is_usable "$NGINX/nginx" || {
        echo "setup.sh: nginx could not be fetched: install it (Debian: apt install nginx)." >&2
        exit 1
    }
}

# Installs a Debian package where that is allowed; `need` says what to do where it is not.
install_package() {
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
        apt-get -qq update || true
        DEBIAN_FRONTEND=noninteractive apt-get -qq -y --no-install-recommends install "$1" \
            >/dev/null
    fi
}

# A real browser for the logins. Debian's has too many libraries to be unpacked beside the machine's.
provide_chromium() {
    if command -v chromium >/dev/null 2>&1 || [ "${MCP_SPAN_TEST_BROWSER:-}" = curl ]; then
        return
    fi
    install_package chromium
    need chromium "install it (Debian: apt install chromium), or set MCP_SPAN_TEST_BROWSER=curl."
}

# The shells that complete command lines.
provide_shells() {
    for shell in bash zsh fish; do
        command -v "$shell" >/dev/null 2>&1 || install_package "$shell"
        need "$shell" "install it (Debian: apt install $shell)."
    done
}

if [ -f "$STAMP" ] && [ "$(cat "$STAMP")" = "$(checksum)" ] && is_usable "$NGINX/nginx"; then
    echo "real peers are installed in target/real"
    exit 0
fi

need node "install Node.js 20 or newer (Debian: apt install nodejs)."
need npm "install npm 10 or newer (Debian: apt install npm)."
need cargo "install Rust (https://rustup.rs)."
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

provide_nginx
provide_chromium
provide_shells

cp "$HERE/package.json" "$HERE/package-lock.json" "$HERE/.npmrc" "$PEERS/"
# Only errors: a warning that the suite wants Node 22 is settled by the Node 22 that comes along.
# No package that is pinned needs a script of its own to be installed.
(cd "$PEERS" && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error)

rm -rf "$PEERS/venv"
python3 -m venv "$PEERS/venv"
"$PEERS/venv/bin/python" -m pip install --quiet --disable-pip-version-check \
    --require-hashes -r "$HERE/requirements.txt"

# By itself: what the package above is built with has no part in it.
(cd "$HERE/rmcp" && CARGO_TARGET_DIR="$PEERS/rmcp" cargo build --quiet --locked)

checksum >"$STAMP"
echo "real peers were installed in target/real"
