#include "tests/golden/emulated.h"

#include <bit>
#include <cstring>
#include <functional>
#include <map>
#include <stdexcept>

#include "common/emulator/approximations.h"
#include "common/emulator/formats.h"
#include "common/emulator/fragments.h"

namespace golden {
namespace {

using emulator::Rounding;

namespace format = emulator::format;

// ---- Scalar operations.

std::uint16_t half(std::uint32_t word) {
  return static_cast<std::uint16_t>(word);
}

float number(std::uint32_t word) {
  return std::bit_cast<float>(word);
}

std::uint32_t bits(float value) {
  return std::bit_cast<std::uint32_t>(value);
}

/// What the operations list does with a 64-bit result.
std::uint32_t folded(std::uint64_t value) {
  return static_cast<std::uint32_t>(value >> 32) * 0x9E37'79B1 + static_cast<std::uint32_t>(value);
}

std::uint32_t narrowed(const emulator::FloatFormat& to, double value,
                       emulator::Narrowing how = {}) {
  return static_cast<std::uint32_t>(emulator::narrow(to, value, how));
}

std::uint32_t integer(double value, int to_bits, bool is_signed, Rounding rounding) {
  return static_cast<std::uint32_t>(
      emulator::float_to_integer(value, {to_bits, is_signed}, rounding, false));
}

std::uint32_t from_integer(std::uint64_t value, int from_bits, bool is_signed,
                           const emulator::FloatFormat& to, Rounding rounding) {
  return static_cast<std::uint32_t>(
      emulator::integer_to_float(value, {from_bits, is_signed}, to, rounding));
}

std::uint32_t integral_f32(std::uint32_t word, Rounding rounding, bool ftz = false) {
  const float value = ftz ? emulator::flush_subnormal(number(word)) : number(word);
  return narrowed(format::f32, emulator::round_to_integral(value, rounding));
}

std::uint32_t both_halves(std::uint32_t pair, std::uint16_t (*function)(std::uint16_t)) {
  return std::uint32_t{function(half(pair >> 16))} << 16 | function(half(pair));
}

double f16(std::uint32_t word) {
  return emulator::widen(format::f16, half(word));
}

double bf16(std::uint32_t word) {
  return emulator::widen(format::bf16, half(word));
}

using Word = std::uint32_t;
using Operation = std::function<Word(Word, Word, Word)>;

const std::map<std::string, Operation>& conversions_from_16() {
  static const std::map<std::string, Operation> table{
      {"cvt.f32.f16", [](Word a, Word, Word) { return bits(emulator::f16_to_f32(half(a))); }},
      {"cvt.f32.bf16", [](Word a, Word, Word) { return bits(emulator::bf16_to_f32(half(a))); }},
      {"cvt.rn.bf16.f16", [](Word a, Word, Word) { return narrowed(format::bf16, f16(a)); }},
      {"cvt.rn.f16.bf16", [](Word a, Word, Word) { return narrowed(format::f16, bf16(a)); }},
      {"cvt.rz.f16.bf16",
       [](Word a, Word, Word) {
         return narrowed(format::f16, bf16(a), {.rounding = Rounding::rz});
       }},
      {"cvt.rni.f16.f16",
       [](Word a, Word, Word) {
         return narrowed(format::f16, emulator::round_to_integral(f16(a), Rounding::rn));
       }},
      {"cvt.rmi.bf16.bf16",
       [](Word a, Word, Word) {
         return narrowed(format::bf16, emulator::round_to_integral(bf16(a), Rounding::rm));
       }},
      {"cvt.rni.s32.f16",
       [](Word a, Word, Word) { return integer(f16(a), 32, true, Rounding::rn); }},
      {"cvt.rzi.s16.f16",
       [](Word a, Word, Word) { return integer(f16(a), 16, true, Rounding::rz) & 0xFFFF; }},
      {"cvt.rpi.u16.f16",
       [](Word a, Word, Word) { return integer(f16(a), 16, false, Rounding::rp); }},
      {"cvt.rmi.s32.bf16",
       [](Word a, Word, Word) { return integer(bf16(a), 32, true, Rounding::rm); }},
      {"cvt.rzi.s64.f16",
       [](Word a, Word, Word) {
         return folded(emulator::float_to_integer(f16(a), {64, true}, Rounding::rz, false));
       }},
      {"cvt.rn.f16.s16",
       [](Word a, Word, Word) { return from_integer(a, 16, true, format::f16, Rounding::rn); }},
      {"cvt.rz.bf16.u16",
       [](Word a, Word, Word) { return from_integer(a, 16, false, format::bf16, Rounding::rz); }},
      {"cvt.rn.f16x2.e4m3x2",
       [](Word a, Word, Word) { return emulator::e4m3x2_to_f16x2(half(a)); }},
      {"cvt.rn.f16x2.e5m2x2",
       [](Word a, Word, Word) { return emulator::e5m2x2_to_f16x2(half(a)); }},
      {"cvt.rn.relu.f16x2.e4m3x2",
       [](Word a, Word, Word) { return emulator::e4m3x2_to_f16x2(half(a), true); }},
      {"cvt.rn.relu.f16x2.e5m2x2",
       [](Word a, Word, Word) { return emulator::e5m2x2_to_f16x2(half(a), true); }},
      {"cvt.rn.satfinite.e4m3x2.f16x2",
       [](Word a, Word, Word) -> Word { return emulator::f16x2_to_e4m3x2(a); }},
      {"cvt.rn.satfinite.e5m2x2.f16x2",
       [](Word a, Word, Word) -> Word { return emulator::f16x2_to_e5m2x2(a); }},
      {"cvt.rn.satfinite.relu.e4m3x2.f16x2",
       [](Word a, Word, Word) -> Word { return emulator::f16x2_to_e4m3x2(a, true); }},
      {"cvt.rn.satfinite.relu.e5m2x2.f16x2",
       [](Word a, Word, Word) -> Word { return emulator::f16x2_to_e5m2x2(a, true); }},
  };
  return table;
}

/// cvt from f32 to a narrower float.
Operation narrowing(const emulator::FloatFormat& to, emulator::Narrowing how = {}) {
  return [to, how](Word a, Word, Word) { return narrowed(to, number(a), how); };
}

Operation to_tf32(emulator::Narrowing how) {
  return [how](Word a, Word, Word) { return emulator::f32_to_tf32(number(a), how); };
}

Operation to_integer(int to_bits, bool is_signed, Rounding rounding, std::uint32_t mask = ~0u) {
  return
      [=](Word a, Word, Word) { return integer(number(a), to_bits, is_signed, rounding) & mask; };
}

const std::map<std::string, Operation>& conversions_from_32() {
  static const std::map<std::string, Operation> table{
      {"cvt.rn.bf16.f32", narrowing(format::bf16)},
      {"cvt.rz.bf16.f32", narrowing(format::bf16, {.rounding = Rounding::rz})},
      {"cvt.rn.relu.bf16.f32", narrowing(format::bf16, {.relu = true})},
      {"cvt.rn.satfinite.bf16.f32", narrowing(format::bf16, {.satfinite = true})},
      {"cvt.rz.relu.satfinite.bf16.f32",
       narrowing(format::bf16, {.rounding = Rounding::rz, .satfinite = true, .relu = true})},
      {"cvt.rn.f16.f32", narrowing(format::f16)},
      {"cvt.rz.f16.f32", narrowing(format::f16, {.rounding = Rounding::rz})},
      {"cvt.rm.f16.f32", narrowing(format::f16, {.rounding = Rounding::rm})},
      {"cvt.rp.f16.f32", narrowing(format::f16, {.rounding = Rounding::rp})},
      {"cvt.rn.relu.f16.f32", narrowing(format::f16, {.relu = true})},
      {"cvt.rn.satfinite.f16.f32", narrowing(format::f16, {.satfinite = true})},
      {"cvt.rn.sat.f16.f32",
       [](Word a, Word, Word) {
         return narrowed(format::f16, emulator::clamp_to_unit(number(a)));
       }},
      {"cvt.rn.bf16x2.f32",
       [](Word a, Word b, Word) { return emulator::f32_to_bf16x2(number(a), number(b)); }},
      {"cvt.rn.f16x2.f32",
       [](Word a, Word b, Word) { return emulator::f32_to_f16x2(number(a), number(b)); }},
      {"cvt.rna.tf32.f32", to_tf32({.rounding = Rounding::rna})},
      {"cvt.rna.satfinite.tf32.f32", to_tf32({.rounding = Rounding::rna, .satfinite = true})},
      {"cvt.rn.tf32.f32", to_tf32({})},
      {"cvt.rz.tf32.f32", to_tf32({.rounding = Rounding::rz})},
      {"cvt.rn.relu.tf32.f32", to_tf32({.relu = true})},
      {"cvt.rn.satfinite.e4m3x2.f32",
       [](Word a, Word b, Word) -> Word { return emulator::f32_to_e4m3x2(number(a), number(b)); }},
      {"cvt.rn.satfinite.e5m2x2.f32",
       [](Word a, Word b, Word) -> Word { return emulator::f32_to_e5m2x2(number(a), number(b)); }},
      {"cvt.rn.satfinite.relu.e4m3x2.f32",
       [](Word a, Word b, Word) -> Word {
         return emulator::f32_to_e4m3x2(number(a), number(b), true);
       }},
      {"cvt.rn.satfinite.relu.e5m2x2.f32",
       [](Word a, Word b, Word) -> Word {
         return emulator::f32_to_e5m2x2(number(a), number(b), true);
       }},
      {"cvt.rni.s32.f32", to_integer(32, true, Rounding::rn)},
      {"cvt.rzi.u32.f32", to_integer(32, false, Rounding::rz)},
      {"cvt.rmi.ftz.s32.f32",
       [](Word a, Word, Word) {
         return integer(emulator::flush_subnormal(number(a)), 32, true, Rounding::rm);
       }},
      {"cvt.rpi.s16.f32", to_integer(16, true, Rounding::rp, 0xFFFF)},
      {"cvt.rni.s8.f32", to_integer(8, true, Rounding::rn)},
      {"cvt.rni.u8.f32", to_integer(8, false, Rounding::rn)},
      {"cvt.rzi.s64.f32",
       [](Word a, Word, Word) {
         return folded(emulator::float_to_integer(number(a), {64, true}, Rounding::rz, false));
       }},
      {"cvt.rni.u64.f32",
       [](Word a, Word, Word) {
         return folded(emulator::float_to_integer(number(a), {64, false}, Rounding::rn, false));
       }},
      {"cvt.rni.f32.f32", [](Word a, Word, Word) { return integral_f32(a, Rounding::rn); }},
      {"cvt.rzi.ftz.f32.f32",
       [](Word a, Word, Word) { return integral_f32(a, Rounding::rz, true); }},
      {"cvt.rmi.f32.f32", [](Word a, Word, Word) { return integral_f32(a, Rounding::rm); }},
      {"cvt.rpi.f32.f32", [](Word a, Word, Word) { return integral_f32(a, Rounding::rp); }},
      {"cvt.sat.f32.f32",
       [](Word a, Word, Word) {
         return bits(static_cast<float>(emulator::clamp_to_unit(number(a))));
       }},
      {"cvt.rn.f32.s32",
       [](Word a, Word, Word) { return from_integer(a, 32, true, format::f32, Rounding::rn); }},
      {"cvt.rz.f32.u32",
       [](Word a, Word, Word) { return from_integer(a, 32, false, format::f32, Rounding::rz); }},
      {"cvt.rm.f32.s32",
       [](Word a, Word, Word) { return from_integer(a, 32, true, format::f32, Rounding::rm); }},
      {"cvt.rp.f32.s32",
       [](Word a, Word, Word) { return from_integer(a, 32, true, format::f32, Rounding::rp); }},
      {"cvt.rn.f16.s32",
       [](Word a, Word, Word) { return from_integer(a, 32, true, format::f16, Rounding::rn); }},
      {"cvt.rn.bf16.u32",
       [](Word a, Word, Word) { return from_integer(a, 32, false, format::bf16, Rounding::rn); }},
      {"cvt.sat.s8.s32",
       [](Word a, Word, Word) {
         return static_cast<Word>(emulator::saturate(a, {32, true}, {8, true}));
       }},
      {"cvt.sat.u8.s32",
       [](Word a, Word, Word) {
         return static_cast<Word>(emulator::saturate(a, {32, true}, {8, false}));
       }},
      {"cvt.sat.s16.u32",
       [](Word a, Word, Word) {
         return static_cast<Word>(emulator::saturate(a, {32, false}, {16, true}));
       }},
      {"cvt.sat.s32.u32",
       [](Word a, Word, Word) {
         return static_cast<Word>(emulator::saturate(a, {32, false}, {32, true}));
       }},
  };
  return table;
}

template <float (*function)(float, float, emulator::F32Mode)>
Operation binary(emulator::F32Mode mode) {
  return [mode](Word a, Word b, Word) { return bits(function(number(a), number(b), mode)); };
}

Operation fused(emulator::F32Mode mode) {
  return [mode](Word a, Word b, Word c) {
    return bits(emulator::fma_f32(number(a), number(b), number(c), mode));
  };
}

template <float (*function)(float, emulator::F32Mode)>
Operation unary(emulator::F32Mode mode) {
  return [mode](Word a, Word, Word) { return bits(function(number(a), mode)); };
}

using HalfBinary = std::uint16_t (*)(const emulator::FloatFormat&, std::uint16_t, std::uint16_t,
                                     emulator::HalfMode);

Operation half_binary(HalfBinary function, const emulator::FloatFormat& format,
                      emulator::HalfMode mode = {}) {
  return [=](Word a, Word b, Word) -> Word { return function(format, half(a), half(b), mode); };
}

Operation half_fused(const emulator::FloatFormat& format, emulator::HalfMode mode = {}) {
  return [=](Word a, Word b, Word c) -> Word {
    return emulator::fma_half(format, half(a), half(b), half(c), mode);
  };
}

const std::map<std::string, Operation>& arithmetic() {
  static const std::map<std::string, Operation> table{
      {"add.rn.f32", binary<emulator::add_f32>({})},
      {"add.rz.f32", binary<emulator::add_f32>({.rounding = Rounding::rz})},
      {"add.rm.f32", binary<emulator::add_f32>({.rounding = Rounding::rm})},
      {"add.rp.ftz.f32", binary<emulator::add_f32>({.rounding = Rounding::rp, .ftz = true})},
      {"add.rn.ftz.sat.f32", binary<emulator::add_f32>({.ftz = true, .sat = true})},
      {"mul.rn.f32", binary<emulator::mul_f32>({})},
      {"mul.rn.ftz.f32", binary<emulator::mul_f32>({.ftz = true})},
      {"mul.rz.f32", binary<emulator::mul_f32>({.rounding = Rounding::rz})},
      {"mul.rp.f32", binary<emulator::mul_f32>({.rounding = Rounding::rp})},
      {"fma.rn.f32", fused({})},
      {"fma.rn.ftz.f32", fused({.ftz = true})},
      {"fma.rz.f32", fused({.rounding = Rounding::rz})},
      {"fma.rm.f32", fused({.rounding = Rounding::rm})},
      {"fma.rp.sat.f32", fused({.rounding = Rounding::rp, .sat = true})},
      {"div.rn.f32", binary<emulator::div_f32>({})},
      {"div.rz.ftz.f32", binary<emulator::div_f32>({.rounding = Rounding::rz, .ftz = true})},
      {"sqrt.rn.f32", unary<emulator::sqrt_f32>({})},
      {"sqrt.rp.f32", unary<emulator::sqrt_f32>({.rounding = Rounding::rp})},
      {"rcp.rn.f32", unary<emulator::rcp_f32>({})},
      {"rcp.rm.ftz.f32", unary<emulator::rcp_f32>({.rounding = Rounding::rm, .ftz = true})},
      {"min.f32",
       [](Word a, Word b, Word) {
         return narrowed(format::f32, emulator::minimum(number(a), number(b)));
       }},
      {"max.NaN.f32",
       [](Word a, Word b, Word) {
         return narrowed(format::f32, emulator::maximum(number(a), number(b), true));
       }},
      {"add.rn.f16", half_binary(emulator::add_half, format::f16)},
      {"add.rn.bf16", half_binary(emulator::add_half, format::bf16)},
      {"mul.rn.ftz.f16", half_binary(emulator::mul_half, format::f16, {.ftz = true})},
      {"mul.rn.bf16", half_binary(emulator::mul_half, format::bf16)},
      {"fma.rn.f16", half_fused(format::f16)},
      {"fma.rn.ftz.sat.f16", half_fused(format::f16, {.ftz = true, .sat = true})},
      {"fma.rn.relu.f16", half_fused(format::f16, {.relu = true})},
      {"fma.rn.bf16", half_fused(format::bf16)},
      {"fma.rn.relu.bf16", half_fused(format::bf16, {.relu = true})},
      {"min.f16", [](Word a, Word b,
                     Word) { return narrowed(format::f16, emulator::minimum(f16(a), f16(b))); }},
      {"max.NaN.bf16",
       [](Word a, Word b, Word) {
         return narrowed(format::bf16, emulator::maximum(bf16(a), bf16(b), true));
       }},
  };
  return table;
}

template <float (*function)(float, bool)>
Operation approximation(bool ftz) {
  return [ftz](Word a, Word, Word) { return bits(function(number(a), ftz)); };
}

Operation half_approximation(std::uint16_t (*function)(std::uint16_t)) {
  return [function](Word a, Word, Word) { return both_halves(a, function); };
}

const std::map<std::string, Operation>& approximations() {
  static const std::map<std::string, Operation> table{
      {"ex2.approx.f32", approximation<emulator::ex2_approx>(false)},
      {"lg2.approx.f32", approximation<emulator::lg2_approx>(false)},
      {"rcp.approx.f32", approximation<emulator::rcp_approx>(false)},
      {"rsqrt.approx.f32", approximation<emulator::rsqrt_approx>(false)},
      {"sqrt.approx.f32", approximation<emulator::sqrt_approx>(false)},
      {"sin.approx.f32", approximation<emulator::sin_approx>(false)},
      {"cos.approx.f32", approximation<emulator::cos_approx>(false)},
      {"tanh.approx.f32",
       [](Word a, Word, Word) { return bits(emulator::tanh_approx(number(a))); }},
      {"ex2.approx.ftz.f32", approximation<emulator::ex2_approx>(true)},
      {"lg2.approx.ftz.f32", approximation<emulator::lg2_approx>(true)},
      {"rcp.approx.ftz.f32", approximation<emulator::rcp_approx>(true)},
      {"rsqrt.approx.ftz.f32", approximation<emulator::rsqrt_approx>(true)},
      {"sqrt.approx.ftz.f32", approximation<emulator::sqrt_approx>(true)},
      {"sin.approx.ftz.f32", approximation<emulator::sin_approx>(true)},
      {"cos.approx.ftz.f32", approximation<emulator::cos_approx>(true)},
      {"div.approx.f32",
       [](Word a, Word b, Word) { return bits(emulator::div_approx(number(a), number(b))); }},
      {"div.full.f32",
       [](Word a, Word b, Word) { return bits(emulator::div_full(number(a), number(b))); }},
      {"ex2.approx.f16x2", half_approximation(emulator::ex2_approx_f16)},
      {"ex2.approx.ftz.bf16x2", half_approximation(emulator::ex2_approx_ftz_bf16)},
      {"tanh.approx.f16x2", half_approximation(emulator::tanh_approx_f16)},
      {"tanh.approx.bf16x2", half_approximation(emulator::tanh_approx_bf16)},
  };
  return table;
}

const Operation& operation(const std::string& name) {
  for (const auto* table :
       {&conversions_from_16(), &conversions_from_32(), &arithmetic(), &approximations()}) {
    const auto found = table->find(name);
    if (found != table->end()) return found->second;
  }
  throw std::logic_error("The golden operation " + name + " has no counterpart in the emulator.");
}

// ---- Tensor copies.

std::vector<std::uint32_t> words_of(const std::vector<std::byte>& bytes, std::size_t first_byte,
                                    std::size_t count) {
  std::vector<std::uint32_t> words(count);
  std::memcpy(words.data(), bytes.data() + first_byte, count * 4);
  return words;
}

}  // namespace

std::vector<std::uint32_t> emulated(const WgmmaCase& c) {
  WgmmaOperands inputs = operands(c);
  // The emulator wants 32 lanes of a warp in a row of their own; a row here has all 128 threads.
  std::array<std::vector<const std::uint32_t*>, 4> a_rows;
  std::array<std::vector<std::uint32_t*>, 4> d_rows;
  for (std::size_t warp = 0; warp < 4; ++warp) {
    for (std::size_t i = 0; i < inputs.a.size(); i += 128) {
      a_rows[warp].push_back(&inputs.a[i + 32 * warp]);
    }
    for (std::size_t i = 0; i < inputs.d.size(); i += 128) {
      d_rows[warp].push_back(&inputs.d[i + 32 * warp]);
    }
  }
  constexpr std::uint32_t base = 1024;
  const auto outside = emulator::wgmma(
      c.form, {d_rows[0].data(), d_rows[1].data(), d_rows[2].data(), d_rows[3].data()},
      {a_rows[0].data(), a_rows[1].data(), a_rows[2].data(), a_rows[3].data()},
      c.descriptor_a + base / 16, c.descriptor_b + base / 16, c.scale_d, {inputs.image, base});
  if (outside) throw std::logic_error("The golden case " + c.name + " leaves its shared memory.");
  return inputs.d;
}

std::vector<std::uint32_t> emulated(const OperationCase& c) {
  const Operation& apply = operation(c.name);
  const OperationWords words = inputs(c.inputs);
  std::vector<std::uint32_t> results;
  for (std::size_t i = 0; i < words[0].size(); ++i) {
    results.push_back(apply(words[0][i], words[1][i], words[2][i]));
  }
  return results;
}

std::vector<std::uint32_t> emulated(const TensorCase& c) {
  std::vector<std::byte> memory = tensor_memory(c);
  std::vector<std::byte> shared = tensor_shared(c);
  std::vector<emulator::BoxPiece> pieces;
  const bool load = c.direction == TensorDirection::load;
  emulator::box_pieces(c.map, c.coordinates, c.shared_offset,
                       load ? emulator::Clip::elements : emulator::Clip::chunks, pieces);
  for (const emulator::BoxPiece& piece : pieces) {
    std::byte* const in_shared = &shared.at(piece.shared);
    if (!piece.in_bounds) {
      if (load) emulator::fill_bytes(c.map.fill, in_shared, piece.bytes);
      continue;
    }
    std::byte* const in_memory = &memory.at(piece.global);
    switch (c.direction) {
      case TensorDirection::load:
        emulator::load_elements(c.map.type, in_shared, in_memory, piece.bytes);
        break;
      case TensorDirection::store:
        std::memcpy(in_memory, in_shared, piece.bytes);
        break;
      case TensorDirection::reduce:
        emulator::reduce_elements(c.operation, c.map.type, in_memory, in_shared, piece.bytes);
        break;
    }
  }
  return load ? words_of(shared, c.shared_offset, result_words(c))
              : words_of(memory, 0, result_words(c));
}

std::vector<std::uint32_t> emulated(const MatrixCase& c) {
  MatrixInputs words = inputs(c);
  auto* const image = reinterpret_cast<std::byte*>(words.image.data());
  for (int matrix = 0; matrix < c.matrices; ++matrix) {
    std::array<std::byte*, 8> rows;
    for (int row = 0; row < 8; ++row) {
      rows[row] = image + words.addresses[emulator::matrix_row_lane(matrix, row)];
    }
    std::uint32_t* const lanes = &words.registers[static_cast<std::size_t>(matrix) * 32];
    if (c.store) {
      emulator::store_matrix(lanes, c.transposed, rows.data());
    } else {
      emulator::load_matrix(rows.data(), c.transposed, lanes);
    }
  }
  return c.store ? words.image : words.registers;
}

}  // namespace golden
