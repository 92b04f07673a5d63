#!/bin/sh
# lockstep monitor --web in a real browser: a day of points, a run that is seen while it goes on, ends, resumes, begins anew.
set -eu
. "$(dirname "$0")/lib.sh"
here=$(cd "$(dirname "$0")" && pwd)
seen=$work/seen

# What needs no browser: the flags, and a build without a server.
mkdir "$seen"
awk 'BEGIN { t = 1700000000
  printf "{\"kind\":\"start\",\"t\":%d,\"rank\":0,\"version\":1,\"host\":\"h\",\"ranks\":1,\"step\":0,\"total_steps\":100000,\"resumed_from\":null,\"strategy\":\"single\",\"backend\":\"cpu\",\"precision\":\"fp32\",\"device\":\"cpu\",\"predicted_us\":90,\"every_s\":1}\n", t
  for (i = 1; i <= 86400; i++) {
    printf "{\"kind\":\"record\",\"t\":%d,\"rank\":0,\"step\":%d,\"total_steps\":100000,\"loss_mean\":%d,\"step_time_us\":%d,\"forward_us\":30,\"backward_us\":50,\"exposed_comm_us\":10,\"memory_bytes\":134800000,\"running_s\":%d}\n", t + i, i, i == 50000 ? 8 : 4 - int((i - 1) / 21600), 90 + i % 7, i
    if (i % 20000 == 0) printf "{\"kind\":\"evaluation\",\"t\":%.1f,\"rank\":0,\"step\":%d,\"val_loss\":%d}\n", t + i + 0.5, i, 6 - i / 20000
  }
}' >"$work/day"
head -1 "$work/day" >"$seen/events.jsonl" # what is refused needs no day, which a sanitized program reads for minutes
expect 2 '\-\-port and --address need --web' monitor "$seen" --port 1
expect 2 'from 0 to 65535, not "70000"' monitor "$seen" --web --port 70000
# The log was read first, for seconds where it is long, and the token was made.
rm -f "$seen/web.token"
expect 2 '\-\-address takes an IPv4 address such as 127.0.0.1, not "nowhere"' monitor "$seen" --web --address nowhere
[ ! -e "$seen/web.token" ] || fail "a refused address has made a token"
expect 2 'cannot be combined with --once or --json' monitor "$seen" --web --once
expect 2 '\-\-address takes an IPv4 address' monitor "$work/none" --web --address ::1
serve() {
  : >"$work/url"
  "$program" monitor "$1" --web --port "$2" >"$work/url" 2>"$work/err" &
  server=$!
  wait_until "the page's address" grep -q / "$work/url"
  url=$(cat "$work/url")
}
# An address of no host. What cannot be read (the folder is in place of the log) is not looked at before the port is taken.
mkdir "$work/unread" "$work/unread/events.jsonl"
if "$program" monitor "$work/unread" --web --port 0 --address 192.0.2.1 >"$work/out" 2>"$work/err"; then fail "an address of no host"; fi
if grep -q 'this build has no libmicrohttpd' "$work/err"; then
  echo "skipped: this build has no libmicrohttpd"
  exit 77
fi
grep -q 'cannot listen on 192.0.2.1 port 0' "$work/err" || fail "$(cat "$work/err")"
cp "$work/unread/web.token" "$seen/web.token"
[ "$(stat -c %a "$seen/web.token")" = 600 ] || fail "the token can be read by others"
# a run that cannot be read: whoever saw the address could have read it
if "$program" monitor "$work/unread" --web --port 0 --address 0.0.0.0 >"$work/out" 2>"$work/err"; then fail "a log that is a folder"; fi
! grep 'whoever sees this address' "$work/err" || fail "a warning about an address at which nothing is served"
chmod 644 "$seen/web.token"
expect 3 'web.token: others can read' monitor "$seen" --web --port 0
rm "$seen/web.token"
mv "$work/day" "$seen/events.jsonl"
serve "$seen" 0
case $url in http://127.0.0.1:*/"$(cat "$seen/web.token")"/) ;; *) fail "the address: $url" ;; esac
browser=$(command -v "${CHROMIUM:-chromium}" || command -v chromium-browser || command -v google-chrome || true)
if [ -z "$browser" ] || ! command -v node >/dev/null 2>&1; then
  kill $server
  wait $server || fail "the server does not end well"
  echo "skipped: chromium or node is not installed: the page was not opened"
  exit 77
fi
export CHROMIUM="$browser"
node "$here/web.js" day "$url" || fail "the page of a day"
kill -INT $server
wait $server || fail "the server does not end well: $(cat "$work/err")"

cat >"$work/c.yaml" <<Y
model: {input: [4], loss: mse, layers: [{dense: {units: 3}}]}
data: {kind: synthetic, samples: 64, validation: 0.25}
train: {batch: 16, steps: 100000000, checkpoint: {dir: $work/run}}
parallel: {backend: cpu, threads: 1, predicted_us: 70}
monitor: {dir: $work/live, every_s: 0.05}
Y
echo '{"t": 0, "gpu_temperature_c": 82, "gpu_margin_c": -2, "gpu_power_w": 420, "gpu_power_limit_w": 400, "gpu_ratio": 0.97, "gpu_memory_bytes": 60000000000, "gpu_memory_size_bytes": 80000000000, "gpu_clock_mhz": 1500, "gpu_heat_limited": 1, "gpu_xid": 79, "gpu_xid_errors": 1}' >"$work/gpu"
train() {
  LOCKSTEP_NVML="$work/gpu" "$program" train "$work/c.yaml" --quiet "$@" >"$work/out" 2>"$work/err" &
  training=$!
}
train
wait_until "the event log" test -s "$work/live/events.jsonl"
serve "$work/live" 0
port=$(echo "$url" | tr / : | cut -d: -f5)
node "$here/web.js" live "$url" "$work" >"$work/said" 2>&1 &
page=$!
said() { [ -e "$work/$1" ] || ! kill -0 $page 2>/dev/null; }
wait_until "the page of a run" said stop
kill -TERM $training
wait $training || true
wait_until "its end" said resume
train --resume
wait_until "its second life" said server
kill $server
wait $server || true
serve "$work/live" "$port"
wait_until "the new server" said anew
kill -TERM $training
wait $training || true
rm -r "$work/run" "$work/live/events.jsonl"
train
wait $page || fail "$(cat "$work/said"); training: $(cat "$work/err")"
kill $training $server
wait || true
cat "$work/said"
echo ok
