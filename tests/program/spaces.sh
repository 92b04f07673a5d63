# Shared by scripts that need several hosts: network namespaces on a bridge, in a network of their own that reaches nothing else.
# After lib.sh. As root.
skip() { echo "skipped: $*" && exit 77; }
space=lockstep-$$
# open_spaces: the bridge, in namespace 0 with 10.99.0.254; skips where there are no namespaces
open_spaces() {
  [ "$(id -u)" = 0 ] || skip "only root makes network namespaces"
  for tool in ip unshare nsenter; do
    command -v $tool >/dev/null 2>&1 || skip "$tool is missing: apt-get install iproute2 util-linux"
  done
  ip netns add "$space-0" 2>"$work/err" || skip "no network namespaces here: $(cat "$work/err")"
  trap close_spaces EXIT
  chmod 755 "$work"
  ip -netns "$space-0" link add name bridge type bridge
  ip -netns "$space-0" address add 10.99.0.254/24 dev bridge
  ip -netns "$space-0" link set lo up
  ip -netns "$space-0" link set bridge up
  for i in 1 2 3; do echo "10.99.0.$i host$i"; done >"$work/etc_hosts"
}
close_spaces() {
  for i in 1 2 3; do kill -KILL "$(cat "$work/$i.pid" 2>/dev/null)" 2>/dev/null || true; done
  for i in 0 1 2 3; do ip netns delete "$space-$i" 2>/dev/null || true; done
  clean_up
}
# host NUMBER SCRIPT: 10.99.0.NUMBER and fd00::NUMBER, as another machine would be: other processes, name, /tmp and /dev/shm; other files are the
# same, and so are $work and the program, even below /tmp. SCRIPT is its first process.
host() {
  ip netns add "$space-$1"
  ip link add name "host$1" netns "$space-0" type veth peer name net netns "$space-$1"
  ip -netns "$space-0" link set "host$1" master bridge up
  ip -netns "$space-$1" address add "10.99.0.$1/24" dev net
  ip -netns "$space-$1" address add "fd00::$1/64" dev net nodad
  ip -netns "$space-$1" link set lo up
  ip -netns "$space-$1" link set net up
  nsenter --net="/run/netns/$space-$1" unshare --uts --ipc --mount --pid --fork --mount-proc --kill-child sh -c "
    hostname host$1; mount --bind '$work/etc_hosts' /etc/hosts; mount -t tmpfs none /dev/shm; mount -t tmpfs none /run
    n=0; for same; do n=\$((n + 1)); mkdir /run/same\$n; mount --bind \"\$same\" /run/same\$n; done
    mount -t tmpfs none /tmp
    n=0; for same; do n=\$((n + 1)); mkdir -p \"\$same\"; mount --bind /run/same\$n \"\$same\"; done; $2" \
    sh "$source_dir" "${program%/bin/*}" "$work" >"$work/$1.log" 2>&1 &
  echo $! >"$work/$1.pid"
}
# on NUMBER COMMAND...: as a process of this host
on() {
  init=$(children "$(cat "$work/$1.pid")")
  shift
  nsenter --target "$init" --all --wd="$work" "$@"
}
