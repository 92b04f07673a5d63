#!/bin/sh
# Tests lockstep on a new machine: installs a bare Debian or Ubuntu into a folder, with git, make and a clone of this
# repository's last commit, and runs `make demo && make test` there as root. Then removes the system and keeps the log.
#   scripts/bare_debian.sh SUITE [COMMAND]     SUITE: bookworm, trixie, noble; as root, with mmdebstrap and 6 GB in $TMPDIR
#   README=1   afterwards runs the README's commands as an ordinary user with an empty home (scripts/readme_check.sh)
#   CI=true    warnings are errors, and packages of single tests are installed too
#   PACKAGES=  more packages, such as clang,libomp-dev (with CC=clang in COMMAND)
#   MIRROR=    instead of the distribution's own archive      LOG=   instead of $TMPDIR/bare-SUITE.log
#   KEYRING=   a file of keys to verify the archive's signatures, instead of those of ubuntu-keyring or debian-archive-keyring
# Exit code 77, with one line, where no system can be made: no root, no mmdebstrap, no namespaces, or no archive that answers.
set -eu
suite=${1:?usage: scripts/bare_debian.sh SUITE [COMMAND]}
command=${2:-make demo && make test}
source_dir=$(cd "$(dirname "$0")/.." && pwd)
case $suite in
noble) keys=ubuntu-keyring distribution=ubuntu mirror=http://archive.ubuntu.com/ubuntu sections="main universe" ;;
*) keys=debian-archive-keyring distribution=debian mirror=http://deb.debian.org/debian sections=main ;;
esac
mirror=${MIRROR:-$mirror}
log=${LOG:-${TMPDIR:-/tmp}/bare-$suite.log}
keyring=${KEYRING:-/usr/share/keyrings/$distribution-archive-keyring.gpg}
cannot() {
  echo "bare_debian: $suite was not tried: $*" >&2
  exit 77
}
[ "$(id -u)" = 0 ] || cannot "root makes the system"
command -v mmdebstrap >/dev/null || cannot "mmdebstrap is missing: apt-get install mmdebstrap"
[ -f "$keyring" ] || cannot "the archive's keys are missing: apt-get install $keys, or set KEYRING"
unshare --mount --propagation private true 2>/dev/null || cannot "no mount namespaces here"
root=$(mktemp -d "${TMPDIR:-/tmp}/bare-$suite.XXXXXX")
chmod 755 "$root"
# The mounts below belong to a mount namespace of the system's own and end with it. It has the system as its root, not a chroot:
# network namespaces need a root that is a mount.
trap 'rm -rf --one-file-system "$root"' EXIT

# How this machine reaches packages (a proxy, and whom it trusts) holds in there too: apt's and npm's.
settings=""
for file in /etc/apt/apt.conf.d/99*; do
  [ ! -f "$file" ] || settings="$settings --aptopt=$file"
done
# shellcheck disable=SC2086 # a list of options
mmdebstrap --variant=minbase --mode=root $settings --include="apt,git,make,ca-certificates${PACKAGES:+,$PACKAGES}" "$suite" \
  "--keyring=$keyring" "$root" "deb $mirror $suite $sections" "deb $mirror $suite-updates $sections" >"$log" 2>&1 || {
  cannot "no system could be made of $mirror: $(grep '^E: ' "$log" | tail -1) (log $log)"
}
cp /etc/resolv.conf "$root/etc/"
if [ -d /usr/local/share/ca-certificates ]; then
  cp -r /usr/local/share/ca-certificates "$root/usr/local/share/" && chroot "$root" update-ca-certificates >>"$log" 2>&1
fi
echo "127.0.0.1 localhost $(hostname)" >"$root/etc/hosts" # without its own name there, mpirun asks for it for seconds
git clone -q --bare "$source_dir" "$root/srv/lockstep"
commit=$(git -C "$root/srv/lockstep" log -1 --format=%h) # main may go on meanwhile
chmod -R a+rX "$root/srv/lockstep"
git -C "$root/srv/lockstep" config safe.directory '*'

cat >"$root/root/run" <<S
set -e
export HOME=/root DEBIAN_FRONTEND=noninteractive CI='${CI:-}'
git config --global --add safe.directory '*'
cd /root && git clone -q /srv/lockstep lockstep && cd lockstep
$command
S
cat >"$root/root/readme" <<S
set -e
useradd --create-home user
cd /home/user
setpriv --reuid=user --regid=user --init-groups env -i PATH=/usr/bin:/bin HOME=/home/user TERM=dumb sh -c '
  git config --global --add safe.directory "*"
  git clone -q /srv/lockstep lockstep && cd lockstep && EXCEPT="make test" scripts/readme_check.sh'
S
inside() {
  unshare --mount --propagation private sh -c 'mount --bind "$1" "$1" && mount -t proc proc "$1/proc" &&
    mount --rbind /dev "$1/dev" && mount --rbind /sys "$1/sys" && cd "$1" && pivot_root . . && umount -l . && cd / &&
    exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin TERM=dumb sh "$2"' sh "$root" "$1" >>"$log" 2>&1
}
code=0
inside /root/run || code=$?
if [ $code = 0 ] && [ "${README:-0}" = 1 ]; then inside /root/readme || code=$?; fi
grep -E 'error:|tests passed|\(Failed\)|\(Timeout\)|not measured|\(Skipped\)|\*\*\*Skipped|demo: with|readme_check:' "$log" |
  head -40 || true
echo "bare_debian: $suite, $commit: exit code $code; log $log"
exit $code
