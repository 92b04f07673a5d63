#!/bin/sh
# Builds the CUDA version and packs it into carry/ (ignored by git) for a GPU machine without this tree's libraries:
# program, module, tests and libraries. tests/cuda/run_gpu_tests.sh carry runs it there.
# Such a machine is expected to have the C library, CUDA, an MPI like this one's and OpenBLAS, which alone the CPU
# backend of this build uses.
#   LS_CUDA_ARCHS  GPU architectures (default 90-real)   LOCKSTEP_DATA  folder with mnist/ (default ../shared/data)
set -eu
cd "$(dirname "$0")/.."
build=build/gpu
out=carry
data=${LOCKSTEP_DATA:-../shared/data}
programs="bin/lockstep tests/graph/test_ops_compare tests/graph/bench_ops tests/cuda/test_cuda_backend tests/schedule/test_schedule_collectives
  src/core/device/cuda/bench_cuda_matmul"
there='^lib((c|m|z|gcc_s|stdc[+][+])[.]so|gomp|gfortran|quadmath|mpi|open-|hwloc|event|udev|openblas|blas|lapack|cuda|cublas|nccl)'

cmake -S . -B $build -G Ninja -DCMAKE_BUILD_TYPE=Release -DLS_CUDA=ON -DDNNL_LIBRARY=OFF \
  "-DLS_CUDA_ARCHS=${LS_CUDA_ARCHS:-90-real}" >/dev/null
cmake --build $build -j "$(nproc)" --target lockstep_cli lockstep_cuda test_ops_compare bench_ops test_cuda_backend \
  test_schedule_collectives bench_cuda_matmul ranks_apart | tail -1

rm -rf $out
mkdir -p $out/bin $out/lib/lockstep $out/data
for program in $programs; do
  cp "$build/$program" $out/bin/
done
cp $build/lib/lockstep/lockstep_cuda.so $out/lib/lockstep/
cp $build/tests/cuda/libranks_apart.so $out/lib/
strip --strip-unneeded $out/bin/* $out/lib/lockstep/*
for program in $programs; do
  ldd "$build/$program"
done | awk -v there="$there" '$3 ~ /^\// && $1 !~ there { print $3 }' |
  sort -u | while read -r library; do
  cp -L "$library" $out/lib/
done
cp examples/01-demo.yaml examples/02-mnist.yaml tests/cuda/run_gpu_tests.sh $out/
if [ -d "$data/mnist" ]; then
  cp "$data"/mnist/*.gz $out/data/
  chmod u+w $out/data/*
fi
du -sh $out
