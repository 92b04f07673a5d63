// What blocks of a cluster send each other: numbers go into another block's shared memory and announce themselves at a barrier
// there, which counts bytes. No fence is needed, and so nobody waits for what was written to global memory meanwhile. From
// compute capability 9.0 on; PTX ISA, sections on mbarrier and st.async.
#pragma once

#include <stdint.h>

// In shared memory. Its phases have parities 0, 1, 0, .. A cluster of one block needs none: its threads meet.
typedef uint64_t arrivals_t;

__device__ static inline uint32_t shared_address(const void *p) {
  return (uint32_t)__cvta_generic_to_shared(p);
}
// By one thread, once in a phase: it ends when this many bytes have arrived.
__device__ static inline void arrivals_expect(arrivals_t *a, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(a)), "r"(bytes)
               : "memory");
}
// `count` barriers, of which each expects so many bytes in every phase. By all threads of the cluster, which find each other's
// shared memory as it was written before. What arrives before it is expected is counted as well.
template <int BLOCKS, class CLUSTER>
__device__ static inline void arrivals_begin(CLUSTER cluster, arrivals_t *a, int count, int bytes) {
  if (BLOCKS > 1 && threadIdx.x == 0)
    for (int i = 0; i < count; i++) {
      asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(a + i)));
      asm volatile("fence.mbarrier_init.release.cluster;");
    }
  cluster.sync();
  if (BLOCKS > 1 && threadIdx.x == 0)
    for (int i = 0; i < count; i++)
      arrivals_expect(a + i, bytes);
}
// Waits for the end of a phase of this parity; the next one begins. By all threads.
template <int BLOCKS> __device__ static inline void arrivals_wait(arrivals_t *a, int parity, int bytes) {
  if constexpr (BLOCKS == 1) {
    __syncthreads();
    return;
  }
  uint32_t done = 0;
  while (!done)
    asm volatile("{.reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p;}"
                 : "=r"(done)
                 : "r"(shared_address(a)), "r"(parity)
                 : "memory");
  if (threadIdx.x == 0) arrivals_expect(a, bytes);
}
// N numbers, 1, 2 or 4, to where `to` lies in the block of that rank, announced at its `a`.
template <int N, int BLOCKS>
__device__ static inline void send(const float *value, float *to, arrivals_t *a, int rank) {
  if constexpr (BLOCKS == 1) {
    for (int i = 0; i < N; i++)
      to[i] = value[i];
    return;
  }
  uint32_t place, at;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(place) : "r"(shared_address(to)), "r"(rank));
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(at) : "r"(shared_address(a)), "r"(rank));
  if constexpr (N == 1)
    asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [%0], %1, [%2];" ::"r"(place),
                 "r"(__float_as_uint(value[0])), "r"(at)
                 : "memory");
  else if constexpr (N == 2)
    asm volatile(
        "st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.b32 [%0], {%1, %2}, [%3];" ::"r"(place),
        "r"(__float_as_uint(value[0])), "r"(__float_as_uint(value[1])), "r"(at)
        : "memory");
  else
    asm volatile(
        "st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%0], {%1, %2, %3, %4}, [%5];" ::"r"(
            place),
        "r"(__float_as_uint(value[0])), "r"(__float_as_uint(value[1])), "r"(__float_as_uint(value[2])),
        "r"(__float_as_uint(value[3])), "r"(at)
        : "memory");
}
