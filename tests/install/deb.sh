#!/bin/sh
# The Debian package holds what is installed, names the libraries that the program loads, and its program runs from where
# it was unpacked. LOCKSTEP_LONG=1, as root with mmdebstrap and a mirror: it is installed into an empty Debian, with its
# dependencies, and trains there. Usage: deb.sh SOURCE BUILD
set -eu
source=$1 build=$2
skip() { echo "skipped: $*" && exit 77; }
fail() { echo "FAILED: $*" && exit 1; }
{ command -v dpkg-shlibdeps && command -v cpack && command -v file; } >/dev/null ||
  skip "cpack, dpkg-shlibdeps (dpkg-dev) and file make the package"
case $(cmake -LA -N "$build" 2>/dev/null | grep '^LS_SANITIZE') in
*address* | *thread*) skip "a sanitized build is not packaged" ;;
esac
work=$(mktemp -d)
trap 'rm -rf --one-file-system "$work"' EXIT
cpack --config "$build/CPackConfig.cmake" -G DEB -B "$work" -D CPACK_DEBIAN_COMPRESSION_TYPE=gzip >"$work/log" 2>&1 || {
  cat "$work/log"
  fail "cpack"
}
deb=$(echo "$work"/lockstep_*.deb)
dpkg-deb --contents "$deb" | awk '{ print $6 }' >"$work/names"
pages=
! command -v scdoc >/dev/null || pages=share/man/man1/lockstep-train.1
for name in bin/lockstep lib/systemd/system/lockstep@.service share/lockstep/deploy/Containerfile share/lockstep/examples/02-mnist.yaml share/lockstep/presets/gpt2.yaml share/lockstep/python/lockstep/__init__.py share/lockstep/templates/k8s.in \
  share/bash-completion/completions/lockstep share/zsh/vendor-completions/_lockstep share/fish/vendor_completions.d/lockstep.fish $pages; do
  grep -qx "./usr/$name" "$work/names" || fail "the package lacks $name"
done
for package in libyaml-0-2 libjansson4; do
  dpkg-deb --field "$deb" Depends | grep -q "$package" || fail "the package does not depend on $package: $(dpkg-deb -f "$deb" Depends)"
done
dpkg-deb --extract "$deb" "$work/root"
"$work/root/usr/bin/lockstep" --version >/dev/null || fail "the unpacked program does not run"
[ "$(dpkg-deb --field "$deb" Version)" = "$("$work/root/usr/bin/lockstep" --version | sed -n '1s/^lockstep \([0-9.]*\).*/\1/p')" ] ||
  fail "the package has another version than the program"
[ -n "${LOCKSTEP_LONG:-}" ] || {
  echo "package: ok (LOCKSTEP_LONG=1 installs it into an empty Debian)"
  exit 0
}

{ [ "$(id -u)" = 0 ] && command -v mmdebstrap; } >/dev/null || skip "root and mmdebstrap make the empty system"
codename=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
settings=""
for file in /etc/apt/apt.conf.d/99*; do
  [ ! -f "$file" ] || settings="$settings --aptopt=$file"
done
# Mounts that mmdebstrap makes end with the namespace. apt fetches what the package depends on.
# shellcheck disable=SC2016,SC2086 # $1 belongs to the hooks; a list of options
unshare --mount --propagation private mmdebstrap --variant=apt --mode=root $settings \
  --customize-hook="upload '$deb' /tmp/lockstep.deb" --customize-hook="copy-in '$source/examples' /tmp" \
  --customize-hook='chroot "$1" apt-get install -y -q --no-install-recommends /tmp/lockstep.deb' \
  --customize-hook='chroot "$1" env HOME=/tmp lockstep train /tmp/examples/02-mnist.yaml --set train.epochs=1 --set parallel.backend=cpu \
    --ranks 1 --quiet --json >"$1/../trained.json"' \
  "$codename" "$work/system" >"$work/log" 2>&1 || {
  tail -20 "$work/log"
  fail "the package does not install or train in an empty $codename"
}
grep -q '"command": "train"' "$work/trained.json" || fail "it did not train: $(cat "$work/trained.json")"
echo "package: installed into an empty $codename, trains"
