#!/bin/sh
# The HTML report in Chromium, 1400 and 420 px wide, light and dark: nothing is wider than its place, no text is below 9 px
# or hard to read. Pages with a fault each are planted to see that it would be noticed.
set -eu
python=$1
here=$(dirname "$0")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
browser=
for name in chromium chromium-browser google-chrome; do
  [ -n "$browser" ] || browser=$(command -v "$name" || true)
done
if [ -z "$browser" ]; then
  echo "SKIPPED: no Chromium here (apt-get install chromium)"
  exit 77
fi
"$python" -B "$here/made.py" "$work"
cp "$here/layout.html" "$work/layout.html"

# What each check is there for, planted into a report: page N and what is to be said of it.
pages=0
planted() { # WANTED HTML
  pages=$((pages + 1))
  sed "s|<main>|<main>$2|" "$work/two.html" >"$work/planted$pages.html"
  echo "$1" >"$work/wanted$pages"
}
planted 'outside of the page' '<table><tr><td style="white-space:nowrap">'"$(printf '%0300d' 0)"'</td></tr></table>'
planted 'wider than its box' '<div style="width:200px;overflow-x:auto"><p style="width:600px">hidden behind a scroll bar</p></div>'
planted 'text of 5.0 px' '<svg viewBox="0 0 960 100" width="400"><text x="10" y="50" font-size="12">small</text></svg>'
planted 'contrast' '<p style="color:#888;background:#777">grey on grey</p>'
planted 'wider than its plot' '<svg width="50" height="20"><text x="0" y="12">a text that leaves its plot</text></svg>'

names=one,two,sweep,failures,study$(seq -f ',planted%g' -s '' $pages)
HOME=$work "$browser" --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --allow-file-access-from-files \
  --virtual-time-budget=60000 --timeout=90000 --user-data-dir="$work/browser" --dump-dom "file://$work/layout.html?$names" \
  2>"$work/browser.err" | sed -n 's/^layout: //p' >"$work/said"
if [ ! -s "$work/said" ]; then
  tail -5 "$work/browser.err"
  echo "FAILED: the browser did not end with a verdict"
  exit 1
fi
if grep -v '^planted' "$work/said"; then
  echo "FAILED"
  exit 1
fi
for n in $(seq $pages); do
  grep "^planted$n," "$work/said" | grep -qFf "$work/wanted$n" && continue
  echo "FAILED: planted $(cat "$work/wanted$n"), noticed:"
  grep "^planted$n," "$work/said"
  exit 1
done
echo ok
