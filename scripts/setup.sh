#!/bin/sh
# Installs the distribution packages with which lockstep builds, and says what it does. Idempotent.
# Runs as root or through sudo; without either it prints the command to run, and exits with 1 if the build needs it.
#   scripts/setup.sh         packages for the build and its tests
#   scripts/setup.sh --all   also packages for single tests and targets that are otherwise skipped; CI=true implies --all
set -eu

required="gcc g++ cmake ninja-build pkg-config libyaml-dev libjansson-dev libxxhash-dev libpcre2-dev libutf8proc-dev zlib1g-dev libpng-dev \
libjpeg-dev libcmocka-dev libopenblas-dev libhwloc-dev openmpi-bin libopenmpi-dev"
# faster matrix products (OpenBLAS is used where the distribution lacks it); metrics over HTTP; reports
optional="libdnnl-dev libmicrohttpd-dev python3"
extras="scdoc mandoc chromium nodejs dpkg-dev file python3-numpy python3-pytest" # man pages; the tests of the HTML report and of monitor --web in a browser; the package; the tests of python/
services="openssh-server iproute2 mmdebstrap debian-archive-keyring ubuntu-keyring" # tests of several hosts, and of bare systems; not where
# somebody works, because one starts a server

all=0
case ${1:-} in
--all) all=1 ;;
"") ;;
*) echo "usage: scripts/setup.sh [--all]" >&2 && exit 2 ;;
esac
case ${CI:-} in true | 1) all=1 extras="$extras $services" ;; esac
command -v npm >/dev/null 2>&1 || extras="$extras npm" # a nodejs from elsewhere brings it, and conflicts with the package
[ $all = 0 ] || optional="$optional $extras"

# The packages of the list that are not installed.
missing_of() {
  for package in "$@"; do
    dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' || printf ' %s' "$package"
  done
}

# npm_packages FOLDER PACKAGE MILLISECONDS WITHOUT: what FOLDER/package-lock.json names, or the loss without npm or its registry
npm_packages() {
  folder=$(dirname "$0")/../$1
  [ ! -e "$folder/node_modules/$2" ] || return 0
  if command -v npm >/dev/null 2>&1; then
    (cd "$folder" && npm ci --ignore-scripts --no-audit --no-fund --fetch-retries=0 --fetch-timeout="$3" >/dev/null 2>&1) && return 0
  fi
  echo "setup: no $2, because npm or its registry is missing: $4"
}
npm_all() {
  npm_packages src/live/monitor/web uplot 20000 "the page of monitor --web draws its curves plainly"
  [ $all = 0 ] || npm_packages tests/program onnxruntime-node 60000 "exported ONNX files are not run"
}

if ! command -v dpkg-query >/dev/null 2>&1; then
  echo "setup: not a Debian or Ubuntu system: install the equivalents of: $required $optional" >&2
  exit 1
fi
# shellcheck disable=SC2086 # lists of names
missing=$(missing_of $required) wanted=$(missing_of $optional)
if [ -z "$missing$wanted" ]; then
  npm_all
  echo "setup: all packages are installed"
  exit 0
fi

if [ "$(id -u)" = 0 ]; then
  as_root=""
elif command -v sudo >/dev/null 2>&1; then
  as_root="sudo"
elif [ -z "$missing" ]; then
  npm_all
  echo "setup: optional packages are not installed: apt-get install --no-install-recommends$wanted"
  exit 0
else
  echo "setup: these packages are missing; run as root:" >&2
  echo "  apt-get install --no-install-recommends$missing$wanted" >&2
  exit 1
fi

log=$(mktemp)
trap 'rm -f "$log"' EXIT
export DEBIAN_FRONTEND=noninteractive
install() {
  $as_root apt-get install -y -q --no-install-recommends "$@" >"$log" 2>&1
}
echo "setup: installing$missing$wanted"
if ! $as_root apt-get update -q >"$log" 2>&1; then
  cat "$log" >&2
  echo "setup: apt-get update failed; trying with the package lists that are here" >&2
fi
# shellcheck disable=SC2086 # lists of names
if [ -n "$missing" ] && ! install $missing; then
  cat "$log" >&2
  echo "setup: the installation failed; the output above says why" >&2
  exit 1
fi
for package in $wanted; do # a distribution may lack one
  install "$package" || echo "setup: $package could not be installed; what needs it is left out"
done
npm_all # after the packages: npm may be one of them
echo "setup: done"
