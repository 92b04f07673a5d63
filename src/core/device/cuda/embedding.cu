// Rows of a table by number, and the table's gradient. Ids are u8, u16, i32, or f32 with whole numbers.
#include "device/cuda/column_sum.cuh"

// The table's row, -1 where there is none.
template <class I> __device__ static int64_t id_of(const I *ids, int64_t k, int64_t rows) {
  double id = (double)ids[k];
  return id >= 0 && id < (double)rows ? (int64_t)id : -1;
}

template <class I, class T, int N>
__global__ void embedding_kernel(const I *ids, const float *table, T *y, int64_t count, int64_t rows,
                                 int64_t width) {
  int64_t c = N * plane_column();
  if (c >= width) return;
  for (int64_t k = plane_row(); k < count; k += plane_row_step()) {
    int64_t id = id_of(ids, k, rows);
    some<float, N> v = load<N>(table + (id >= 0 ? id : 0) * width + c);
    float row[N];
#pragma unroll
    for (int e = 0; e < N; e++)
      row[e] = id >= 0 ? v[e] : NAN;
    store(y + k * width + c, row);
  }
}

template <class I> static void embedding_as(ls_stream_t *stream, args_t args) {
  int64_t count = in_count(args, 0), rows = in_rows(args, 1), width = in_width(args, 1);
  bool four = width % 4 == 0 && aligned16(in(args, 1), out(args, 0));
  plane p = plane_for(count, four ? width / 4 : width);
  BY_DTYPE(out_dtype(args, 0), auto *kernel = four ? embedding_kernel<I, T, 4> : embedding_kernel<I, T, 1>;
           kernel<<<p.grid, p.block, 0, ls_kernel_stream(stream)>>>(in<I>(args, 0), in(args, 1),
                                                                    out<T>(args, 0), count, rows, width))
}

static ls_status_t embedding(ls_stream_t *stream, args_t args) {
  BY_IDS(embedding_as, args->in[0].shape.dtype)
  return launched(stream, "embedding");
}

// ---- the gradient ----
// Sums of rows of dy by their ids, in an order that depends on the ids and sizes alone: three ways.

__device__ static inline int64_t whole(int32_t id) {
  return id;
}
__device__ static inline int64_t whole(float id) {
  return id >= 0 ? (int64_t)id : -1; // a NaN is no number
}

// ---- two rows: sums over columns ----

template <class I, class T> struct two_rows_term {
  static constexpr int COUNT = 2;
  typedef T type;
  const T *dy;
  const I *ids;
  template <int N> __device__ void add(int64_t i, int64_t k, float (*sum)[N]) const {
    some<T, N> v = load<N>(dy + i);
    int64_t id = whole(ids[k]);
#pragma unroll
    for (int e = 0; e < N; e++) {
      sum[0][e] += id == 0 ? v[e] : 0;
      sum[1][e] += id == 1 ? v[e] : 0;
    }
  }
  bool aligned() const {
    return aligned16(dy);
  }
};

template <class I> static void two_rows_dw(ls_stream_t *stream, args_t args) {
  int64_t count = in_count(args, 1), width = args->out[0].shape.dim[1];
  outputs to = {out(args, 0), out(args, 0) + width};
  BY_DTYPE(in_dtype(args, 0), two_rows_term<I, T> terms = {in<T>(args, 0), in<I>(args, 1)};
           column_sum(ls_kernel_stream(stream), ls_kernel_scratch(stream), terms, to, count, width))
}

// ---- more rows than ids: all become 0, then those that an id names get their sum ----
// A warp has an id, and is done if that came before. It looks at SCAN ids a lane at a time for others that are the same,
// and adds up FLIGHT rows at a time of those that it has found. Its lanes have N columns each, V times.

constexpr int SCAN = 8, FLIGHT = 4;

template <class I, class T, int N, int V>
__global__ void __launch_bounds__(BLOCK, 2)
    sparse_dw_kernel(const T *dy, const I *ids, float *dw, int64_t count, int64_t rows, int64_t width) {
  int lane = threadIdx.x % WARP, found = 0;
  int64_t own = thread_index() / WARP, first = (int64_t)blockIdx.y * (N * V * WARP) + N * lane;
  int64_t mine = 0; // the lane's of the places found
  if (own >= count) return;
  int64_t row = whole(ids[own]);
  if (row < 0 || row >= rows) return;
  for (int64_t base = 0; base < own; base += SCAN * WARP) {
    bool earlier = false;
#pragma unroll
    for (int a = 0; a < SCAN; a++) {
      int64_t k = base + a * WARP + lane;
      earlier |= k < own && whole(ids[k]) == row;
    }
    if (__any_sync(0xffffffffu, earlier)) return;
  }
  float sum[V][N] = {};
  auto add = [&](int places) {
    for (int i = 0; i < places; i += FLIGHT) {
      some<T, N> v[FLIGHT][V];
#pragma unroll
      for (int f = 0; f < FLIGHT; f++) {
        const T *from = dy + __shfl_sync(0xffffffffu, mine, i + f) * width + first;
#pragma unroll
        for (int j = 0; j < V; j++)
          if (i + f < places && first + j * N * WARP < width) v[f][j] = load<N>(from + j * N * WARP);
      }
#pragma unroll
      for (int f = 0; f < FLIGHT; f++)
#pragma unroll
        for (int j = 0; j < V; j++)
#pragma unroll
          for (int e = 0; e < N; e++)
            if (i + f < places && first + j * N * WARP < width) sum[j][e] += v[f][j][e];
    }
  };
  for (int64_t base = own; base < count; base += SCAN * WARP) {
    bool same[SCAN];
#pragma unroll
    for (int a = 0; a < SCAN; a++) {
      int64_t k = base + a * WARP + lane;
      same[a] = k < count && whole(ids[k]) == row;
    }
#pragma unroll
    for (int a = 0; a < SCAN; a++)
      for (unsigned rest = __ballot_sync(0xffffffffu, same[a]); rest; rest &= rest - 1) {
        if (lane == found) mine = base + a * WARP + __ffs((int)rest) - 1;
        if (++found == WARP) add(found);
        found %= WARP;
      }
  }
  add(found);
  float *to = dw + row * width + first;
#pragma unroll
  for (int j = 0; j < V; j++)
    if (first + j * N * WARP < width) store(to + j * N * WARP, sum[j]);
}

template <class I> static void sparse_dw(ls_stream_t *stream, args_t args) {
  int64_t count = in_count(args, 1), rows = args->out[0].shape.dim[0], width = args->out[0].shape.dim[1];
  bool aligned = aligned16(in(args, 0), out(args, 0));
  cudaStream_t handle = ls_kernel_stream(stream);
  (void)cudaMemsetAsync(out(args, 0), 0, ls_shape_bytes(&args->out[0].shape), handle);
  BY_DTYPE(
      in_dtype(args, 0), constexpr int N = WIDE<T>; bool wide = aligned && width % N == 0;
      auto *kernel = wide ? sparse_dw_kernel<I, T, N, 3> : sparse_dw_kernel<I, T, 1, 3>;
      int64_t across = (wide ? N : 1) * 3 * WARP;
      dim3 grid((unsigned)((count + WARPS - 1) / WARPS), (unsigned)((width + across - 1) / across));
      kernel<<<grid, BLOCK, 0, handle>>>(in<T>(args, 0), in<I>(args, 1), out(args, 0), count, rows, width))
}

// ---- few rows ----
// A warp has ROWS rows of the table, EACH * 32 columns and one part of the ids. It looks at AHEAD * 32 ids at a time and
// adds the rows of dy that are its own, in the order of the ids. With more than one part the parts go to the workspace
// (part, row, column), and a second kernel adds them up.

constexpr int ROWS = 4, AHEAD = 4;
constexpr int64_t PART_IDS = 256, MOST_PARTS = 64, SMALL = 1024;
constexpr int64_t FEW_ROWS = 16, FEW_PART_IDS = 16,
                  FEW_MOST_PARTS = 512; // then a warp gets most ids of its part

// The id as a row behind `first`, -1 if it is not one of ROWS.
template <class I> __device__ static int own_row(I id, int64_t first) {
  int64_t row = whole(id) - first;
  return row >= 0 && row < ROWS ? (int)row : -1;
}

template <class I, class T, int EACH>
__global__ void embedding_dw_kernel(const T *dy, const I *ids, float *dw, int64_t count, int64_t rows,
                                    int64_t width) {
  int lane = threadIdx.x % WARP;
  int64_t first = ((int64_t)blockIdx.x * WARPS + threadIdx.x / WARP) * ROWS;
  int64_t column = (int64_t)blockIdx.y * (EACH * WARP) + lane;
  int64_t chunk = (count + gridDim.z - 1) / gridDim.z, begin = blockIdx.z * chunk;
  int64_t end = begin + chunk < count ? begin + chunk : count;
  if (first >= rows) return;
  float sum[ROWS][EACH] = {};
  for (int64_t base = begin; base < end; base += AHEAD * WARP) {
    int own[AHEAD];
#pragma unroll
    for (int a = 0; a < AHEAD; a++) {
      int64_t k = base + a * WARP + lane;
      own[a] = k < end ? own_row(ids[k], first) : -1;
    }
#pragma unroll
    for (int a = 0; a < AHEAD; a++) {
      unsigned mine = __ballot_sync(0xffffffffu, own[a] >= 0);
      while (mine) {
        int from = __ffs((int)mine) - 1, row = __shfl_sync(0xffffffffu, own[a], from);
        mine &= mine - 1;
        const T *add = dy + (base + a * WARP + from) * width;
#pragma unroll
        for (int e = 0; e < EACH; e++) {
          float value = column + e * WARP < width ? f32_of(add[column + e * WARP]) : 0;
#pragma unroll
          for (int r = 0; r < ROWS; r++)
            if (r == row) sum[r][e] += value;
        }
      }
    }
  }
  float *to = dw + ((int64_t)blockIdx.z * rows + first) * width;
#pragma unroll
  for (int r = 0; r < ROWS; r++)
#pragma unroll
    for (int e = 0; e < EACH; e++)
      if (first + r < rows && column + e * WARP < width) to[r * width + column + e * WARP] = sum[r][e];
}

template <class I> static void dense_dw(ls_stream_t *stream, args_t args) {
  int64_t count = in_count(args, 1), rows = args->out[0].shape.dim[0], width = args->out[0].shape.dim[1];
  // A warp that has more columns looks at the ids for fewer of them again, but a small table has few warps.
  int64_t each = width <= 8 * WARP || rows <= SMALL ? 8 : 24;
  size_t workspace_bytes;
  float *workspace = (float *)ls_kernel_workspace(stream, &workspace_bytes), *dw = out(args, 0);
  int64_t fit = (int64_t)(workspace_bytes / sizeof(float)) / (rows * width);
  int64_t each_part = rows <= FEW_ROWS ? FEW_PART_IDS : PART_IDS,
          most = rows <= FEW_ROWS ? FEW_MOST_PARTS : MOST_PARTS;
  int64_t parts = grid_for(count, each_part, fit < most ? fit : most);
  if (parts < 1) parts = 1;
  dim3 grid((unsigned)((rows + ROWS * WARPS - 1) / (ROWS * WARPS)),
            (unsigned)((width + each * WARP - 1) / (each * WARP)), (unsigned)parts);
  BY_DTYPE(in_dtype(args, 0),
           auto *kernel = each == 8 ? embedding_dw_kernel<I, T, 8> : embedding_dw_kernel<I, T, 24>;
           kernel<<<grid, BLOCK, 0, ls_kernel_stream(stream)>>>(
               in<T>(args, 0), in<I>(args, 1), parts > 1 ? workspace : dw, count, rows, width))
  if (parts > 1) ls_kernel_add_parts(stream, workspace, dw, rows * width, (int)parts);
}

static ls_status_t embedding_dw(ls_stream_t *stream, args_t args) {
  int64_t rows = args->out[0].shape.dim[0];
  if (rows == 2)
    BY_IDS(two_rows_dw, args->in[1].shape.dtype)
  else if (rows >= in_count(args, 1))
    BY_IDS(sparse_dw, args->in[1].shape.dtype)
  else
    BY_IDS(dense_dw, args->in[1].shape.dtype)
  return launched(stream, "embedding_dw");
}

const ls_kernel_row_t ls_cuda_embedding_rows[] = {
    {"embedding", embedding, true}, {"embedding_dw", embedding_dw, true}, {}};
