#!/bin/sh
# Installs the distribution packages that lockstep builds with, and says what it does. Idempotent.
# As root or through sudo; with neither it prints the command to run and stops with status 1.
set -eu

required="gcc g++ cmake ninja-build pkg-config libyaml-dev libjansson-dev libxxhash-dev zlib1g-dev \
libcmocka-dev libopenblas-dev libhwloc-dev openmpi-bin libopenmpi-dev"
optional="libdnnl-dev" # faster matrix products; OpenBLAS is used where the distribution lacks it

installed() {
  dpkg-query -W -f '${Status}' "$1" 2>/dev/null | grep -q 'install ok installed'
}

if ! command -v dpkg-query >/dev/null 2>&1; then
  echo "setup: not a Debian or Ubuntu system: install the equivalents of: $required $optional" >&2
  exit 1
fi

missing=""
for package in $required; do
  installed "$package" || missing="$missing $package"
done
wanted=""
for package in $optional; do
  installed "$package" || wanted="$wanted $package"
done
if [ -z "$missing" ] && [ -z "$wanted" ]; then
  echo "setup: all packages are installed"
  exit 0
fi

if [ "$(id -u)" = 0 ]; then
  as_root=""
elif command -v sudo >/dev/null 2>&1; then
  as_root="sudo"
elif [ -z "$missing" ]; then
  echo "setup: optional packages are missing (slower matrix products): apt-get install$wanted"
  exit 0
else
  echo "setup: these packages are missing; run as root:" >&2
  echo "  apt-get install --no-install-recommends$missing$wanted" >&2
  exit 1
fi

echo "setup: installing$missing$wanted"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
export DEBIAN_FRONTEND=noninteractive
if ! $as_root apt-get update -q >"$log" 2>&1; then
  cat "$log" >&2
  echo "setup: apt-get update failed; trying with the package lists that are here" >&2
fi
available=""
for package in $wanted; do
  if apt-cache show "$package" >/dev/null 2>&1; then available="$available $package"; fi
done
# shellcheck disable=SC2086 # lists of names
if ! $as_root apt-get install -y -q --no-install-recommends $missing $available >"$log" 2>&1; then
  cat "$log" >&2
  echo "setup: the installation failed; the output above says why" >&2
  exit 1
fi
echo "setup: done"
