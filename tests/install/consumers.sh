#!/bin/sh
# Installs the build into an empty folder and builds and runs outside programs against it. They train a network on
# samples from memory. Usage: consumers.sh SOURCE BUILD CC
set -eu
source=$1 build=$2 cc=$3
case $(cmake -LA -N "$build" 2>/dev/null | grep '^LS_SANITIZE') in
*address* | *thread*) echo "skipped: sanitized libraries need a sanitized program"; exit 77 ;;
esac
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cmake --install "$build" --prefix "$work/prefix" >/dev/null
libdir=$(dirname "$(find "$work/prefix" -name lockstep.pc)")
export PKG_CONFIG_PATH="$libdir"
soname=$(readelf -d "$(dirname "$libdir")/liblockstep.so" | sed -n 's/.*SONAME.*\[\(.*\)\]/\1/p')
[ "$soname" = "liblockstep.so.0" ] || { echo "unexpected SONAME $soname"; exit 1; }

# Only what the public headers declare leaves the library.
leaked=$(nm -D --defined-only "$(dirname "$libdir")/liblockstep.so" | awk '$2 == "T" {print $3}' |
  while read -r name; do grep -rqw "$name" "$work/prefix/include" || echo "$name"; done)
[ -z "$leaked" ] || { echo "symbols that no public header declares: $leaked"; exit 1; }

# What is shipped is installed, and the installed program finds it by name from anywhere.
(cd "$work" && unset LOCKSTEP_SHARE && "$work/prefix/bin/lockstep" simulate "$source/examples/04-simulate-h200.yaml" \
  --machine h200 --ranks 1,2 >named && grep -q SIMULATED named) || { echo "h200 is not found by name"; exit 1; }
(cd "$work" && "$work/prefix/bin/lockstep" simulate --workload resnet50 --machine v100-hdr --ranks 1,2 >/dev/null) ||
  { echo "resnet50 is not found by name"; exit 1; }
if command -v python3 >/dev/null; then
  (cd "$work" && "$work/prefix/bin/lockstep" bench --from "$source/tests/tools/recorded/sweep.json" --html report.html >/dev/null &&
    grep -q '<svg' report.html) || { echo "the installed program makes no report"; exit 1; }
  # The installed Python package finds the library beside it.
  (cd "$work" && unset LOCKSTEP_LIBRARY && PYTHONPATH="$work/prefix/share/lockstep/python" python3 -B -c 'import lockstep
assert lockstep.Model("model: {input: [3], loss: mse, layers: [{dense: {units: 1}}]}\ndata: {kind: synthetic}").fit().report["steps"] > 0') ||
    { echo "the installed Python package does not train"; exit 1; }
fi
# The examples are installed, and a copy of them trains from anywhere: its runs do not go into the installed tree.
(mkdir "$work/anywhere" && cd "$work/anywhere" && cp -r "$work/prefix/share/lockstep/examples" . &&
  "$work/prefix/bin/lockstep" train examples/02-mnist.yaml --set train.epochs=1 --ranks 1 --quiet >/dev/null &&
  [ -d runs/mnist ]) || { echo "an installed example does not train"; exit 1; }

cd "$work"
# As the README says: pkg-config with -rpath or LD_LIBRARY_PATH for a prefix of one's own, lockstep::lockstep in CMake.
flags=$(pkg-config --cflags lockstep)
# shellcheck disable=SC2046,SC2086 # lists of flags
$cc -std=c17 -Wall -Werror $flags "$source/tests/install/consumer.c" -o shared $(pkg-config --libs lockstep) \
  -Wl,-rpath,"$(pkg-config --variable=libdir lockstep)"
./shared
# shellcheck disable=SC2046,SC2086
$cc -std=c17 -Wall -Werror $flags "$source/tests/install/consumer.c" -o without_rpath $(pkg-config --libs lockstep)
LD_LIBRARY_PATH="$(pkg-config --variable=libdir lockstep)${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" ./without_rpath
# shellcheck disable=SC2046,SC2086
$cc -std=c17 -Wall -Werror $flags "$source/tests/install/consumer.c" -o static \
  "$(pkg-config --variable=libdir lockstep)/liblockstep.a" $(pkg-config --static --libs lockstep | sed 's/-llockstep//')
./static
ldd static | grep -q liblockstep && { echo "the static program loads the shared library"; exit 1; }
mkdir cmake && cp "$source/tests/install/consumer.c" "$source/tests/install/outside.cmake" cmake/
cp cmake/consumer.c cmake/consumer_cpp.cpp
mv cmake/outside.cmake cmake/CMakeLists.txt
cmake -S cmake -B cmake/build -DCMAKE_PREFIX_PATH="$work/prefix" >/dev/null
cmake --build cmake/build >/dev/null
cmake/build/consumer
cmake/build/consumer_cpp
echo "consumers: pkg-config shared, pkg-config static, CMake package (C and C++): ok"
