// Recurrent chains of any width on any GPU: each position is a kernel of its own, with its product or after one that made it.
#pragma once

#include "device/cuda/product.cuh"
#include "device/cuda/recurrent.cuh"

enum { CLUSTER, GRID, POSITIONS, PRODUCTS_OF }; // ways; the last plus LS_TENSOR_*

// A block has a square of samples and units; products go through shared memory DEPTH deep.

enum { SIDE = 16, DEPTH = 32 };

// sums (n, gates h): the products, where a kernel before has made them; else NULL.
template <class OP>
__global__ void position_kernel(OP op, const typename OP::E *w, const float *sums, chain_t k, int step) {
  constexpr int G = OP::GATES;
  __shared__ float hs[SIDE][DEPTH], ws[G][SIDE][DEPTH + 1];
  int tx = threadIdx.x % SIDE, ty = threadIdx.x / SIDE;
  int64_t unit = (int64_t)blockIdx.x * SIDE + tx, sample = (int64_t)blockIdx.y * SIDE + ty;
  float sum[G] = {};
  for (int64_t k0 = 0; !sums && step > 0 && k0 < k.h; k0 += DEPTH) {
    __syncthreads();
    for (int i = threadIdx.x; i < SIDE * DEPTH; i += BLOCK) {
      int64_t r = i / DEPTH, c = k0 + i % DEPTH, other = (int64_t)blockIdx.y * SIDE + r;
      bool real = other < k.n && c < k.h;
      hs[r][i % DEPTH] = real ? f32_of(op.y[(other * k.t + k.position(step - 1)) * k.h + c]) : 0;
      int64_t e = (int64_t)blockIdx.x * SIDE + r;
#pragma unroll
      for (int g = 0; g < G; g++)
        ws[g][r][i % DEPTH] = e < k.h && c < k.h ? f32_of(w[((int64_t)g * k.h + e) * k.h + c]) : 0;
    }
    __syncthreads();
#pragma unroll
    for (int c = 0; c < DEPTH; c++)
#pragma unroll
      for (int g = 0; g < G; g++)
        sum[g] += hs[ty][c] * ws[g][tx][c];
  }
  if (unit >= k.h || sample >= k.n) return;
#pragma unroll
  for (int g = 0; g < G; g++)
    if (sums && step > 0) sum[g] = sums[(sample * G + g) * k.h + unit];
  int before = step == 0 ? NONE : k.back ? 1 : -1, e = (int)unit;
  op = op.from(sample * k.t + k.position(step), k.h);
  float state = before == NONE ? 0 : op.state_at(before, k.h, e);
  float output = before == NONE ? 0 : f32_of(op.y[before * k.h + e]);
  float gate[SLOTS];
  for (int g = 0; g < SLOTS; g++)
    gate[g] = op.gate(op.load_slot(0, k.h, e, g) + (g < G ? sum[g < G ? g : 0] : 0), g);
  typename OP::kept_t kept = op.step(gate, &output, &state);
  for (int g = 0; g < SLOTS; g++)
    op.keep_slot(0, k.h, e, g, kept);
}

// state (n, h): what goes along the chain. sums (n, h).
template <class OP>
__global__ void position_dx_kernel(OP op, const typename OP::E *w, const float *sums, float *state, chain_t k,
                                   int step) {
  constexpr int G = OP::GATES;
  __shared__ float ds[SIDE][DEPTH], ws[DEPTH][SIDE];
  int tx = threadIdx.x % SIDE, ty = threadIdx.x / SIDE;
  int64_t unit = (int64_t)blockIdx.x * SIDE + tx, sample = (int64_t)blockIdx.y * SIDE + ty;
  bool last = step == k.t - 1;
  float dh = 0;
  for (int64_t k0 = 0; !sums && !last && k0 < G * k.h; k0 += DEPTH) {
    __syncthreads();
    for (int i = threadIdx.x; i < SIDE * DEPTH; i += BLOCK) {
      int64_t r = (int64_t)blockIdx.y * SIDE + i / DEPTH, c = k0 + i % DEPTH;
      ds[i / DEPTH][i % DEPTH] =
          r < k.n && c < G * k.h ? f32_of(op.factors()[(r * k.t + k.position(step + 1)) * G * k.h + c]) : 0;
      int64_t e = (int64_t)blockIdx.x * SIDE + i % SIDE, from = k0 + i / SIDE;
      ws[i / SIDE][i % SIDE] = e < k.h && from < G * k.h ? f32_of(w[from * k.h + e]) : 0;
    }
    __syncthreads();
#pragma unroll
    for (int c = 0; c < DEPTH; c++)
      dh += ds[ty][c] * ws[c][tx];
  }
  if (unit >= k.h || sample >= k.n) return;
  int before = step == 0 ? NONE : k.back ? 1 : -1, e = (int)unit;
  op = op.from(sample * k.t + k.position(step), k.h);
  if (sums && !last) dh = sums[sample * k.h + unit];
  float along = last ? 0 : state[sample * k.h + unit];
  typename OP::in_t in;
  op.load(&in, 0, before, k.h, e, read_t());
  op.keep(0, k.h, e, op.step(op.prepare(in), dh, &along));
  state[sample * k.h + unit] = along;
}

static dim3 squares(const chain_t &k) {
  return dim3((unsigned)((k.h + SIDE - 1) / SIDE), (unsigned)((k.n + SIDE - 1) / SIDE));
}

// sums = the product of a position: of the output before and the weights, or of the factors behind and the weights.
template <class OP>
static int product_of_position(ls_stream_t *stream, const OP &op, const typename OP::E *w, const chain_t &k,
                               int step, float *sums, size_t taken, int which) {
  const int n = (int)k.n, h = k.h, all = OP::GATES * h;
  const int at = k.position(OP::GRADIENT ? step + 1 : step - 1);
  product_task p = {};
  // A row is an image of one line, of which the window takes, or y has, one column.
  if constexpr (OP::GRADIENT) {
    p.s = {n, 1, 1, h, 1, k.t, all, 1, 1, h, all, 1, 1, 0, at, 1, 1};
    p.a = op.factors();
  } else {
    p.s = {n, 1, k.t, h, 1, 1, all, 1, 1, h, all, 1, 1, 0, -at, 1, 1};
    p.a = op.y;
  }
  p.b = w;
  p.out = sums;
  p.wide = true;
  p.m = n;
  p.n = OP::GRADIENT ? h : all;
  p.k = OP::GRADIENT ? all : h;
  p.groups = 1;
  size_t bytes = (size_t)h * sizeof(typename OP::E) | (size_t)(uintptr_t)p.a | (size_t)(uintptr_t)w;
  p.a_bytes = p.b_bytes = bytes % 16 == 0 ? 16 : bytes % 4 == 0 ? 4 : 2;
  p.count = (int64_t)n * p.n;
  p.taken = taken;
  const bool wide = sizeof(typename OP::E) == 4, bf16 = std::is_same<typename OP::E, bf16_t>::value;
  return product_tensor(stream, p, OP::GRADIENT ? DX : FORWARD,
                        wide   ? LS_F32
                        : bf16 ? LS_BF16
                               : LS_F16,
                        which);
}

// Positions one after the other: a product and what is made of it, or both in one kernel.
template <class OP>
static int run_positions(ls_stream_t *stream, args_t args, const OP &op, const typename OP::E *w,
                         const chain_t &k, int way) {
  cudaStream_t handle = ls_kernel_stream(stream);
  size_t room, taken = (size_t)k.n * k.h * (OP::GRADIENT ? 1 : OP::GATES) * sizeof(float) + 256;
  char *workspace = (char *)ls_kernel_workspace(stream, &room);
  bool apart = way >= PRODUCTS_OF;
  if (apart && (taken > room / 2 || k.n * k.t > INT32_MAX / 2)) return cudaErrorNotSupported;
  float *sums = apart ? (float *)(workspace + (room - taken + 255) / 256 * 256) : nullptr;
  for (int s = 0; s < k.t; s++) {
    int step = OP::GRADIENT ? k.t - 1 - s : s, error = 0;
    if (apart && s > 0) error = product_of_position(stream, op, w, k, step, sums, taken, way - PRODUCTS_OF);
    if (error) return error;
    if constexpr (OP::GRADIENT)
      position_dx_kernel<OP><<<squares(k), BLOCK, 0, handle>>>(op, w, sums, (float *)args->scratch, k, step);
    else
      position_kernel<OP><<<squares(k), BLOCK, 0, handle>>>(op, w, sums, k, step);
  }
  return launched();
}
