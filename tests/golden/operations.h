// Scalar operations whose results the golden files hold, as a list of macro calls, so that the
// kernel, the cases and the comparison have them in one order:
//
//   OPERATION(name, inputs, body)
//
// `inputs` is an OperationInputs. `body` is PTX: %1, %2 and %3 are the 32-bit inputs, %0 the 32-bit
// result; h, i, j (.b16), s, t (.b32) and d (.b64) are at its disposal.
#pragma once

// Inputs and results of 16 bits travel in the low half of 32.
#define GOLDEN_16_TO_16(type) "cvt.u16.u32 h, %1; cvt." type " i, h; cvt.u32.u16 %0, i;"
#define GOLDEN_16_TO_32(type) "cvt.u16.u32 h, %1; cvt." type " %0, h;"
#define GOLDEN_16_TO_64(type) \
  "cvt.u16.u32 h, %1; cvt." type " d, h; mov.b64 {s, t}, d; mad.lo.u32 %0, t, 0x9E3779B1, s;"
#define GOLDEN_32_TO_16(type) "cvt." type " h, %1; cvt.u32.u16 %0, h;"
#define GOLDEN_32_TO_64(type) \
  "cvt." type " d, %1; mov.b64 {s, t}, d; mad.lo.u32 %0, t, 0x9E3779B1, s;"
#define GOLDEN_32(op) op " %0, %1;"
#define GOLDEN_32_32(op) op " %0, %1, %2;"
#define GOLDEN_32_32_32(op) op " %0, %1, %2, %3;"
#define GOLDEN_PAIR_TO_16(type) "cvt." type " h, %1, %2; cvt.u32.u16 %0, h;"
#define GOLDEN_16_16(op) "cvt.u16.u32 h, %1; cvt.u16.u32 i, %2; " op " j, h, i; cvt.u32.u16 %0, j;"
#define GOLDEN_16_16_16(op)                                      \
  "cvt.u16.u32 h, %1; cvt.u16.u32 i, %2; cvt.u16.u32 j, %3; " op \
  " h, h, i, j; "                                                \
  "cvt.u32.u16 %0, h;"

#define GOLDEN_CONVERSIONS_FROM_16(OPERATION)                                                 \
  OPERATION("cvt.f32.f16", all_16_bits, GOLDEN_16_TO_32("f32.f16"))                           \
  OPERATION("cvt.f32.bf16", all_16_bits, GOLDEN_16_TO_32("f32.bf16"))                         \
  OPERATION("cvt.rn.bf16.f16", all_16_bits, GOLDEN_16_TO_16("rn.bf16.f16"))                   \
  OPERATION("cvt.rn.f16.bf16", all_16_bits, GOLDEN_16_TO_16("rn.f16.bf16"))                   \
  OPERATION("cvt.rz.f16.bf16", all_16_bits, GOLDEN_16_TO_16("rz.f16.bf16"))                   \
  OPERATION("cvt.rni.f16.f16", all_16_bits, GOLDEN_16_TO_16("rni.f16.f16"))                   \
  OPERATION("cvt.rmi.bf16.bf16", all_16_bits, GOLDEN_16_TO_16("rmi.bf16.bf16"))               \
  OPERATION("cvt.rni.s32.f16", all_16_bits, GOLDEN_16_TO_32("rni.s32.f16"))                   \
  OPERATION("cvt.rzi.s16.f16", all_16_bits, GOLDEN_16_TO_16("rzi.s16.f16"))                   \
  OPERATION("cvt.rpi.u16.f16", all_16_bits, GOLDEN_16_TO_16("rpi.u16.f16"))                   \
  OPERATION("cvt.rmi.s32.bf16", all_16_bits, GOLDEN_16_TO_32("rmi.s32.bf16"))                 \
  OPERATION("cvt.rzi.s64.f16", all_16_bits, GOLDEN_16_TO_64("rzi.s64.f16"))                   \
  OPERATION("cvt.rn.f16.s16", all_16_bits, GOLDEN_16_TO_16("rn.f16.s16"))                     \
  OPERATION("cvt.rz.bf16.u16", all_16_bits, GOLDEN_16_TO_16("rz.bf16.u16"))                   \
  OPERATION("cvt.rn.f16x2.e4m3x2", all_16_bits, GOLDEN_16_TO_32("rn.f16x2.e4m3x2"))           \
  OPERATION("cvt.rn.f16x2.e5m2x2", all_16_bits, GOLDEN_16_TO_32("rn.f16x2.e5m2x2"))           \
  OPERATION("cvt.rn.relu.f16x2.e4m3x2", all_16_bits, GOLDEN_16_TO_32("rn.relu.f16x2.e4m3x2")) \
  OPERATION("cvt.rn.relu.f16x2.e5m2x2", all_16_bits, GOLDEN_16_TO_32("rn.relu.f16x2.e5m2x2")) \
  OPERATION("cvt.rn.satfinite.e4m3x2.f16x2", pairs_of_16_bits,                                \
            GOLDEN_32_TO_16("rn.satfinite.e4m3x2.f16x2"))                                     \
  OPERATION("cvt.rn.satfinite.e5m2x2.f16x2", pairs_of_16_bits,                                \
            GOLDEN_32_TO_16("rn.satfinite.e5m2x2.f16x2"))                                     \
  OPERATION("cvt.rn.satfinite.relu.e4m3x2.f16x2", pairs_of_16_bits,                           \
            GOLDEN_32_TO_16("rn.satfinite.relu.e4m3x2.f16x2"))                                \
  OPERATION("cvt.rn.satfinite.relu.e5m2x2.f16x2", pairs_of_16_bits,                           \
            GOLDEN_32_TO_16("rn.satfinite.relu.e5m2x2.f16x2"))

#define GOLDEN_CONVERSIONS_FROM_F32(OPERATION)                                                   \
  OPERATION("cvt.rn.bf16.f32", floats, GOLDEN_32_TO_16("rn.bf16.f32"))                           \
  OPERATION("cvt.rz.bf16.f32", floats, GOLDEN_32_TO_16("rz.bf16.f32"))                           \
  OPERATION("cvt.rn.relu.bf16.f32", floats, GOLDEN_32_TO_16("rn.relu.bf16.f32"))                 \
  OPERATION("cvt.rn.satfinite.bf16.f32", floats, GOLDEN_32_TO_16("rn.satfinite.bf16.f32"))       \
  OPERATION("cvt.rz.relu.satfinite.bf16.f32", floats,                                            \
            GOLDEN_32_TO_16("rz.relu.satfinite.bf16.f32"))                                       \
  OPERATION("cvt.rn.f16.f32", floats, GOLDEN_32_TO_16("rn.f16.f32"))                             \
  OPERATION("cvt.rz.f16.f32", floats, GOLDEN_32_TO_16("rz.f16.f32"))                             \
  OPERATION("cvt.rm.f16.f32", floats, GOLDEN_32_TO_16("rm.f16.f32"))                             \
  OPERATION("cvt.rp.f16.f32", floats, GOLDEN_32_TO_16("rp.f16.f32"))                             \
  OPERATION("cvt.rn.relu.f16.f32", floats, GOLDEN_32_TO_16("rn.relu.f16.f32"))                   \
  OPERATION("cvt.rn.satfinite.f16.f32", floats, GOLDEN_32_TO_16("rn.satfinite.f16.f32"))         \
  OPERATION("cvt.rn.sat.f16.f32", floats, GOLDEN_32_TO_16("rn.sat.f16.f32"))                     \
  OPERATION("cvt.rn.bf16x2.f32", floats, GOLDEN_32_32("cvt.rn.bf16x2.f32"))                      \
  OPERATION("cvt.rn.f16x2.f32", floats, GOLDEN_32_32("cvt.rn.f16x2.f32"))                        \
  OPERATION("cvt.rna.tf32.f32", floats, GOLDEN_32("cvt.rna.tf32.f32"))                           \
  OPERATION("cvt.rna.satfinite.tf32.f32", floats, GOLDEN_32("cvt.rna.satfinite.tf32.f32"))       \
  OPERATION("cvt.rn.tf32.f32", floats, GOLDEN_32("cvt.rn.tf32.f32"))                             \
  OPERATION("cvt.rz.tf32.f32", floats, GOLDEN_32("cvt.rz.tf32.f32"))                             \
  OPERATION("cvt.rn.relu.tf32.f32", floats, GOLDEN_32("cvt.rn.relu.tf32.f32"))                   \
  OPERATION("cvt.rn.satfinite.e4m3x2.f32", floats, GOLDEN_PAIR_TO_16("rn.satfinite.e4m3x2.f32")) \
  OPERATION("cvt.rn.satfinite.e5m2x2.f32", floats, GOLDEN_PAIR_TO_16("rn.satfinite.e5m2x2.f32")) \
  OPERATION("cvt.rn.satfinite.relu.e4m3x2.f32", floats,                                          \
            GOLDEN_PAIR_TO_16("rn.satfinite.relu.e4m3x2.f32"))                                   \
  OPERATION("cvt.rn.satfinite.relu.e5m2x2.f32", floats,                                          \
            GOLDEN_PAIR_TO_16("rn.satfinite.relu.e5m2x2.f32"))                                   \
  OPERATION("cvt.rni.s32.f32", floats, GOLDEN_32("cvt.rni.s32.f32"))                             \
  OPERATION("cvt.rzi.u32.f32", floats, GOLDEN_32("cvt.rzi.u32.f32"))                             \
  OPERATION("cvt.rmi.ftz.s32.f32", floats, GOLDEN_32("cvt.rmi.ftz.s32.f32"))                     \
  OPERATION("cvt.rpi.s16.f32", floats, GOLDEN_32_TO_16("rpi.s16.f32"))                           \
  OPERATION("cvt.rni.s8.f32", floats, GOLDEN_32("cvt.rni.s8.f32"))                               \
  OPERATION("cvt.rni.u8.f32", floats, GOLDEN_32("cvt.rni.u8.f32"))                               \
  OPERATION("cvt.rzi.s64.f32", floats, GOLDEN_32_TO_64("rzi.s64.f32"))                           \
  OPERATION("cvt.rni.u64.f32", floats, GOLDEN_32_TO_64("rni.u64.f32"))                           \
  OPERATION("cvt.rni.f32.f32", floats, GOLDEN_32("cvt.rni.f32.f32"))                             \
  OPERATION("cvt.rzi.ftz.f32.f32", floats, GOLDEN_32("cvt.rzi.ftz.f32.f32"))                     \
  OPERATION("cvt.rmi.f32.f32", floats, GOLDEN_32("cvt.rmi.f32.f32"))                             \
  OPERATION("cvt.rpi.f32.f32", floats, GOLDEN_32("cvt.rpi.f32.f32"))                             \
  OPERATION("cvt.sat.f32.f32", floats, GOLDEN_32("cvt.sat.f32.f32"))

#define GOLDEN_CONVERSIONS_FROM_INTEGERS(OPERATION)                   \
  OPERATION("cvt.rn.f32.s32", words, GOLDEN_32("cvt.rn.f32.s32"))     \
  OPERATION("cvt.rz.f32.u32", words, GOLDEN_32("cvt.rz.f32.u32"))     \
  OPERATION("cvt.rm.f32.s32", words, GOLDEN_32("cvt.rm.f32.s32"))     \
  OPERATION("cvt.rp.f32.s32", words, GOLDEN_32("cvt.rp.f32.s32"))     \
  OPERATION("cvt.rn.f16.s32", words, GOLDEN_32_TO_16("rn.f16.s32"))   \
  OPERATION("cvt.rn.bf16.u32", words, GOLDEN_32_TO_16("rn.bf16.u32")) \
  OPERATION("cvt.sat.s8.s32", words, GOLDEN_32("cvt.sat.s8.s32"))     \
  OPERATION("cvt.sat.u8.s32", words, GOLDEN_32("cvt.sat.u8.s32"))     \
  OPERATION("cvt.sat.s16.u32", words, GOLDEN_32_TO_16("sat.s16.u32")) \
  OPERATION("cvt.sat.s32.u32", words, GOLDEN_32("cvt.sat.s32.u32"))

#define GOLDEN_ARITHMETIC(OPERATION)                                                   \
  OPERATION("add.rn.f32", triples, GOLDEN_32_32("add.rn.f32"))                         \
  OPERATION("add.rz.f32", triples, GOLDEN_32_32("add.rz.f32"))                         \
  OPERATION("add.rm.f32", triples, GOLDEN_32_32("add.rm.f32"))                         \
  OPERATION("add.rp.ftz.f32", triples, GOLDEN_32_32("add.rp.ftz.f32"))                 \
  OPERATION("add.rn.ftz.sat.f32", triples, GOLDEN_32_32("add.rn.ftz.sat.f32"))         \
  OPERATION("mul.rn.f32", triples, GOLDEN_32_32("mul.rn.f32"))                         \
  OPERATION("mul.rn.ftz.f32", triples, GOLDEN_32_32("mul.rn.ftz.f32"))                 \
  OPERATION("mul.rz.f32", triples, GOLDEN_32_32("mul.rz.f32"))                         \
  OPERATION("mul.rp.f32", triples, GOLDEN_32_32("mul.rp.f32"))                         \
  OPERATION("fma.rn.f32", triples, GOLDEN_32_32_32("fma.rn.f32"))                      \
  OPERATION("fma.rn.ftz.f32", triples, GOLDEN_32_32_32("fma.rn.ftz.f32"))              \
  OPERATION("fma.rz.f32", triples, GOLDEN_32_32_32("fma.rz.f32"))                      \
  OPERATION("fma.rm.f32", triples, GOLDEN_32_32_32("fma.rm.f32"))                      \
  OPERATION("fma.rp.sat.f32", triples, GOLDEN_32_32_32("fma.rp.sat.f32"))              \
  OPERATION("div.rn.f32", triples, GOLDEN_32_32("div.rn.f32"))                         \
  OPERATION("div.rz.ftz.f32", triples, GOLDEN_32_32("div.rz.ftz.f32"))                 \
  OPERATION("sqrt.rn.f32", triples, GOLDEN_32("sqrt.rn.f32"))                          \
  OPERATION("sqrt.rp.f32", triples, GOLDEN_32("sqrt.rp.f32"))                          \
  OPERATION("rcp.rn.f32", triples, GOLDEN_32("rcp.rn.f32"))                            \
  OPERATION("rcp.rm.ftz.f32", triples, GOLDEN_32("rcp.rm.ftz.f32"))                    \
  OPERATION("min.f32", triples, GOLDEN_32_32("min.f32"))                               \
  OPERATION("max.NaN.f32", triples, GOLDEN_32_32("max.NaN.f32"))                       \
  OPERATION("add.rn.f16", half_triples, GOLDEN_16_16("add.rn.f16"))                    \
  OPERATION("add.rn.bf16", half_triples, GOLDEN_16_16("add.rn.bf16"))                  \
  OPERATION("mul.rn.ftz.f16", half_triples, GOLDEN_16_16("mul.rn.ftz.f16"))            \
  OPERATION("mul.rn.bf16", half_triples, GOLDEN_16_16("mul.rn.bf16"))                  \
  OPERATION("fma.rn.f16", half_triples, GOLDEN_16_16_16("fma.rn.f16"))                 \
  OPERATION("fma.rn.ftz.sat.f16", half_triples, GOLDEN_16_16_16("fma.rn.ftz.sat.f16")) \
  OPERATION("fma.rn.relu.f16", half_triples, GOLDEN_16_16_16("fma.rn.relu.f16"))       \
  OPERATION("fma.rn.bf16", half_triples, GOLDEN_16_16_16("fma.rn.bf16"))               \
  OPERATION("fma.rn.relu.bf16", half_triples, GOLDEN_16_16_16("fma.rn.relu.bf16"))     \
  OPERATION("min.f16", half_triples, GOLDEN_16_16("min.f16"))                          \
  OPERATION("max.NaN.bf16", half_triples, GOLDEN_16_16("max.NaN.bf16"))

/// These are bounded, not bit-exact: their results are kept whole.
#define GOLDEN_APPROXIMATIONS(OPERATION)                                                \
  OPERATION("ex2.approx.f32", spread_150, GOLDEN_32("ex2.approx.f32"))                  \
  OPERATION("lg2.approx.f32", spread_4, GOLDEN_32("lg2.approx.f32"))                    \
  OPERATION("rcp.approx.f32", spread_4, GOLDEN_32("rcp.approx.f32"))                    \
  OPERATION("rsqrt.approx.f32", spread_4, GOLDEN_32("rsqrt.approx.f32"))                \
  OPERATION("sqrt.approx.f32", spread_4, GOLDEN_32("sqrt.approx.f32"))                  \
  OPERATION("sin.approx.f32", spread_angles, GOLDEN_32("sin.approx.f32"))               \
  OPERATION("cos.approx.f32", spread_angles, GOLDEN_32("cos.approx.f32"))               \
  OPERATION("tanh.approx.f32", spread_10, GOLDEN_32("tanh.approx.f32"))                 \
  OPERATION("ex2.approx.ftz.f32", small, GOLDEN_32("ex2.approx.ftz.f32"))               \
  OPERATION("lg2.approx.ftz.f32", small, GOLDEN_32("lg2.approx.ftz.f32"))               \
  OPERATION("rcp.approx.ftz.f32", small, GOLDEN_32("rcp.approx.ftz.f32"))               \
  OPERATION("rsqrt.approx.ftz.f32", small, GOLDEN_32("rsqrt.approx.ftz.f32"))           \
  OPERATION("sqrt.approx.ftz.f32", small, GOLDEN_32("sqrt.approx.ftz.f32"))             \
  OPERATION("sin.approx.ftz.f32", small, GOLDEN_32("sin.approx.ftz.f32"))               \
  OPERATION("cos.approx.ftz.f32", small, GOLDEN_32("cos.approx.ftz.f32"))               \
  OPERATION("div.approx.f32", small, GOLDEN_32_32("div.approx.f32"))                    \
  OPERATION("div.full.f32", small, GOLDEN_32_32("div.full.f32"))                        \
  OPERATION("ex2.approx.f16x2", spread_halves, GOLDEN_32("ex2.approx.f16x2"))           \
  OPERATION("ex2.approx.ftz.bf16x2", spread_halves, GOLDEN_32("ex2.approx.ftz.bf16x2")) \
  OPERATION("tanh.approx.f16x2", spread_halves, GOLDEN_32("tanh.approx.f16x2"))         \
  OPERATION("tanh.approx.bf16x2", spread_halves, GOLDEN_32("tanh.approx.bf16x2"))

#define GOLDEN_OPERATIONS(OPERATION)          \
  GOLDEN_CONVERSIONS_FROM_16(OPERATION)       \
  GOLDEN_CONVERSIONS_FROM_F32(OPERATION)      \
  GOLDEN_CONVERSIONS_FROM_INTEGERS(OPERATION) \
  GOLDEN_ARITHMETIC(OPERATION)                \
  GOLDEN_APPROXIMATIONS(OPERATION)
