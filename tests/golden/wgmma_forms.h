// The forms of wgmma that the golden files hold, as a list of macro calls, so that the kernels and
// the cases have them in one order:
//
//   FORM(a, b, d, n, source, negate_a, negate_b, transpose_a, transpose_b, saturation)
//
// a, b, d: types as in PTX. source: ss or rs. negate: plus or minus. transpose: 0 or 1. saturation:
// wrap or satfinite.
#pragma once

#define GOLDEN_EACH_N(FORM, a, b, d, source, transpose_a, transpose_b)  \
  FORM(a, b, d, 8, source, plus, plus, transpose_a, transpose_b, wrap)  \
  FORM(a, b, d, 96, source, plus, plus, transpose_a, transpose_b, wrap) \
  FORM(a, b, d, 256, source, plus, plus, transpose_a, transpose_b, wrap)

/// Operands that are always K-major.
#define GOLDEN_K_MAJOR(FORM, a, b, d)    \
  GOLDEN_EACH_N(FORM, a, b, d, ss, 0, 0) \
  GOLDEN_EACH_N(FORM, a, b, d, rs, 0, 0)

/// Operands of 16 bits, which can be MN-major in shared memory.
#define GOLDEN_ANY_MAJOR(FORM, type, d)        \
  GOLDEN_K_MAJOR(FORM, type, type, d)          \
  GOLDEN_EACH_N(FORM, type, type, d, ss, 0, 1) \
  GOLDEN_EACH_N(FORM, type, type, d, ss, 1, 0) \
  GOLDEN_EACH_N(FORM, type, type, d, ss, 1, 1) \
  GOLDEN_EACH_N(FORM, type, type, d, rs, 0, 1)

#define GOLDEN_SIGNS(FORM, type, d, source)                \
  FORM(type, type, d, 96, source, minus, plus, 0, 0, wrap) \
  FORM(type, type, d, 96, source, plus, minus, 0, 0, wrap) \
  FORM(type, type, d, 96, source, minus, minus, 0, 0, wrap)

#define GOLDEN_SATURATION(FORM, a, b)                  \
  FORM(a, b, s32, 96, ss, plus, plus, 0, 0, satfinite) \
  FORM(a, b, s32, 96, rs, plus, plus, 0, 0, satfinite)

#define GOLDEN_WGMMA_FORMS(FORM)        \
  GOLDEN_ANY_MAJOR(FORM, bf16, f32)     \
  GOLDEN_ANY_MAJOR(FORM, f16, f32)      \
  GOLDEN_ANY_MAJOR(FORM, f16, f16)      \
  GOLDEN_K_MAJOR(FORM, tf32, tf32, f32) \
  GOLDEN_K_MAJOR(FORM, e4m3, e4m3, f32) \
  GOLDEN_K_MAJOR(FORM, e4m3, e5m2, f32) \
  GOLDEN_K_MAJOR(FORM, e5m2, e4m3, f32) \
  GOLDEN_K_MAJOR(FORM, e5m2, e5m2, f32) \
  GOLDEN_K_MAJOR(FORM, e4m3, e4m3, f16) \
  GOLDEN_K_MAJOR(FORM, e4m3, e5m2, f16) \
  GOLDEN_K_MAJOR(FORM, e5m2, e4m3, f16) \
  GOLDEN_K_MAJOR(FORM, e5m2, e5m2, f16) \
  GOLDEN_K_MAJOR(FORM, s8, s8, s32)     \
  GOLDEN_K_MAJOR(FORM, s8, u8, s32)     \
  GOLDEN_K_MAJOR(FORM, u8, s8, s32)     \
  GOLDEN_K_MAJOR(FORM, u8, u8, s32)     \
  GOLDEN_SIGNS(FORM, bf16, f32, ss)     \
  GOLDEN_SIGNS(FORM, f16, f32, ss)      \
  GOLDEN_SIGNS(FORM, f16, f16, ss)      \
  GOLDEN_SIGNS(FORM, tf32, f32, ss)     \
  GOLDEN_SIGNS(FORM, e4m3, f32, ss)     \
  GOLDEN_SIGNS(FORM, bf16, f32, rs)     \
  GOLDEN_SIGNS(FORM, tf32, f32, rs)     \
  GOLDEN_SIGNS(FORM, e5m2, f16, rs)     \
  GOLDEN_SATURATION(FORM, s8, s8)       \
  GOLDEN_SATURATION(FORM, u8, u8)
