/* Compiles every loop for one instruction set and collects them in the table LS_SIMD_TABLE. The including
 * file defines LS_SIMD_TABLE, LS_SIMD_NAME and LS_VECTOR_BYTES and is compiled with the flags of that set. */
#include "device/cpu/simd_vector.h"

#include "device/cpu/simd_math.h"

#include "device/cpu/simd_dropout.h"
#include "device/cpu/simd_elementwise.h"
#include "device/cpu/simd_gemm.h"
#include "device/cpu/simd_gemm_nt.h"
#include "device/cpu/simd_recurrent.h"
#include "device/cpu/simd_reduce.h"
#include "device/cpu/simd_update.h"
#include "device/cpu/simd_window.h"

#define INT8(name) int8_##name
#define INT8_TARGET
#define INT8_DOT(sum, x, w) add_pairs(sum, x, w)
typedef int16_t int8_value_t;
#include "device/cpu/simd_int8.h"
static const ls_simd_int8_t int8_table = {2, LANES, int8_round, int8_product};

const ls_simd_t LS_SIMD_TABLE = {
    .name = LS_SIMD_NAME,
    .int8 = &int8_table,
    .product_nt = product_nt,
    .product_nn = product_nn,
    .product_tn = product_tn,
    .column_sums = column_sums,
    .pack = pack,
    .pack_dx = pack_dx,
    .chain = chain,
    .chain_dx = chain_dx,
    .relu = relu,
    .tanh = map_tanh,
    .sigmoid = map_sigmoid,
    .gelu = map_gelu,
    .gelu_tanh = map_gelu_tanh,
    .silu = map_silu,
    .relu_dy = relu_dy,
    .tanh_dy = tanh_dy,
    .sigmoid_dy = sigmoid_dy,
    .gelu_dx = gelu_dx,
    .gelu_tanh_dx = gelu_tanh_dx,
    .silu_dx = silu_dx,
    .from_u8 = from_u8,
    .from_u16 = from_u16,
    .from_i32 = from_i32,
    .from_bf16 = from_bf16,
    .from_f16 = from_f16,
    .to_bf16 = to_bf16,
    .to_f16 = to_f16,
    .add = add,
    .mul = mul,
    .add_product = add_product,
    .take_larger = take_larger,
    .add_where = add_where,
    .channel_moments = channel_moments,
    .channel_slopes = channel_slopes,
    .channel_scale = channel_scale,
    .channel_dx = channel_dx,
    .dropout = dropout,
    .softmax_row = softmax_row,
    .attention_slopes = attention_slopes,
    .dot = dot,
    .sum = sum_of,
    .squared_distance = squared_distance,
    .absolute_distance = absolute_distance,
    .huber_distance = huber_distance,
    .bce_distance = bce_distance,
    .l1_slope = l1_slope,
    .huber_slope = huber_slope,
    .scaled_difference = scaled_difference,
    .moments = moments,
    .normalize = normalize,
    .normalize_dx = normalize_dx,
    .normalize_dgb = normalize_dgb,
    .sumsq = sumsq,
    .sgd = sgd,
    .sgd_momentum = sgd_momentum,
    .adam = adam,
};
