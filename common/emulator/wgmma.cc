#include "common/emulator/wgmma.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <type_traits>

#include "common/emulator/formats.h"
#include "common/emulator/fragments.h"

// The inner loops are compiled for AVX2 too, and the program picks at its start.
#if defined(__x86_64__) && defined(__gnu_linux__)
#define EMULATOR_CLONES __attribute__((target_clones("avx2", "default")))
#else
#define EMULATOR_CLONES
#endif

namespace emulator {
namespace {

constexpr int m = 64;
constexpr int max_n = 256;
constexpr int max_k = 32;

// A and B are first unpacked into panels, with every value where the multiplication wants it: a
// register row of the accumulator (32 lanes) is four vectors of 8 lanes, that is two rows of D by
// four columns. T is float, or int32_t for s8 and u8.

template <class T>
using Vector __attribute__((vector_size(32))) = T;

/// A[16 warp + 8 half + row][k] is in lanes 4 row to 4 row + 3 of at(warp, half, k).
template <class T>
struct PanelA {
  alignas(32) T values[4][2][max_k][32];

  void put(int row, int k, T value) {
    std::fill_n(values[row / 16][row / 8 % 2][k] + 4 * (row % 8), 4, value);
  }
};

/// B[k][8 block + 2 q + odd] is in lanes q and 4 + q of (block, k, odd).
template <class T>
struct PanelB {
  alignas(32) T values[max_n / 8][max_k][2][8];

  void put(int column, int k, T value) {
    T* const lanes = values[column / 8][k][column % 2] + column % 8 / 2;
    lanes[0] = value;
    lanes[4] = value;
  }
};

/// Two panels for an 8-bit type: the values, and of each the power of two of its exponent, 0 for a
/// zero. A subnormal has the exponent of the smallest normal number.
template <template <class> class Panel>
struct ScaledPanel {
  Panel<float> value, power;
  float smallest_normal;

  explicit ScaledPanel(float smallest) : smallest_normal(smallest) {}

  void put(int mn, int k, float element) {
    value.put(mn, k, element);
    const float binade = std::bit_cast<float>(std::bit_cast<std::uint32_t>(element) & 0x7F80'0000u);
    power.put(mn, k, element == 0 ? 0 : std::max(binade, smallest_normal));
  }
};

// ---- Unpacking.

struct Float16 {
  using Bits = std::uint16_t;
  static float value(Bits bits) { return f16_to_f32(bits); }
};
struct BFloat16 {
  using Bits = std::uint16_t;
  static float value(Bits bits) { return bf16_to_f32(bits); }
};
struct TFloat32 {
  using Bits = std::uint32_t;
  static float value(Bits bits) { return truncate_to_tf32(bits); }
};
struct E4M3 {
  using Bits = std::uint8_t;
  static float value(Bits bits) { return e4m3_to_f32(bits); }
};
struct E5M2 {
  using Bits = std::uint8_t;
  static float value(Bits bits) { return e5m2_to_f32(bits); }
};
struct Signed8 {
  using Bits = std::uint8_t;
  static std::int32_t value(Bits bits) { return static_cast<std::int8_t>(bits); }
};
struct Unsigned8 {
  using Bits = std::uint8_t;
  static std::int32_t value(Bits bits) { return bits; }
};

/// Calls function(Element{}) for the element type of a matrix of T.
template <class T, class Function>
auto with_element(MatrixType type, Function function) {
  if constexpr (std::is_same_v<T, float>) {
    switch (type) {
      case MatrixType::f16:
        return function(Float16{});
      case MatrixType::tf32:
        return function(TFloat32{});
      case MatrixType::e4m3:
        return function(E4M3{});
      case MatrixType::e5m2:
        return function(E5M2{});
      default:
        return function(BFloat16{});
    }
  } else {
    return type == MatrixType::s8 ? function(Signed8{}) : function(Unsigned8{});
  }
}

/// 2^-6 or 2^-14: the power of two that the subnormals of an 8-bit type share.
float smallest_normal(MatrixType type) {
  return type == MatrixType::e4m3 ? 0x1p-6f : 0x1p-14f;
}

/// An operand in shared memory: `rows` of M or N.
struct SharedOperand {
  char name;
  MatrixType type;
  Major major;
  int rows;
  MatrixDescriptor descriptor;
};

/// Calls visit(mn, k, address) for the 16-byte chunks of an operand, with the indices of
/// chunk_address, until it returns false.
template <class Visit>
void for_each_chunk(const SharedOperand& operand, Visit visit) {
  const bool k_major = operand.major == Major::k;
  const int mn_end = k_major ? operand.rows : operand.rows / 8;
  const int k_end = k_major ? 2 : 16;
  for (int mn = 0; mn < mn_end; ++mn) {
    for (int k = 0; k < k_end; ++k) {
      if (!visit(mn, k, chunk_address(operand.descriptor, operand.major, mn, k))) return;
    }
  }
}

template <class Element, class Panel>
std::optional<OutsideShared> unpack_shared(const SharedOperand& operand, const SharedWindow& shared,
                                           Panel& panel) {
  using Bits = typename Element::Bits;
  constexpr int per_chunk = 16 / sizeof(Bits);
  const bool k_major = operand.major == Major::k;
  std::optional<OutsideShared> outside;
  for_each_chunk(operand, [&](int mn, int k, std::uint32_t address) {
    const std::size_t offset = std::uint32_t{address - shared.base};
    if (offset + 16 > shared.bytes.size()) {
      outside = {operand.name, address};
      return false;
    }
    std::array<Bits, per_chunk> chunk;
    std::memcpy(chunk.data(), shared.bytes.data() + offset, 16);
    for (int i = 0; i < per_chunk; ++i) {
      const auto value = Element::value(chunk[i]);
      if (k_major) {
        panel.put(mn, per_chunk * k + i, value);
      } else {
        panel.put(8 * mn + i, k, value);
      }
    }
    return true;
  });
  return outside;
}

template <class Element, class Panel>
void unpack_registers(const ConstWarpgroupRegisters& registers, Panel& panel) {
  using Bits = typename Element::Bits;
  constexpr int bits = 8 * sizeof(Bits);
  constexpr int per_register = 32 / bits;
  for (int thread = 0; thread < 128; ++thread) {
    for (int i = 0; i < WgmmaForm::a_registers * per_register; ++i) {
      const std::uint32_t word = registers[thread / 32][i / per_register][thread % 32];
      const auto element = static_cast<Bits>(word >> (bits * (i % per_register)));
      const MatrixPosition at = a_element(thread, i, bits);
      panel.put(at.row, at.column, Element::value(element));
    }
  }
}

SharedOperand operand_a(const WgmmaForm& form, std::uint64_t descriptor) {
  return {'A', form.a, form.transpose_a ? Major::mn : Major::k, m, decode_descriptor(descriptor)};
}

SharedOperand operand_b(const WgmmaForm& form, std::uint64_t descriptor) {
  return {'B', form.b, form.transpose_b ? Major::mn : Major::k, form.n,
          decode_descriptor(descriptor)};
}

// ---- Multiplying.

/// Two registers of a warp's accumulator: rows 8 half to 8 half + 7 by the even and the odd columns
/// of a block of 8.
template <class T>
struct AccumulatorPair {
  Vector<T> even[4];
  Vector<T> odd[4];
};

/// sum += A B, in order of k.
template <class T>
[[gnu::always_inline]] inline void multiply(AccumulatorPair<T>& sum, const T (*a)[32],
                                            const T (*b)[2][8], int k_count) {
  AccumulatorPair<T> local = sum;
  for (int k = 0; k < k_count; ++k) {
    const auto* const a_vectors = reinterpret_cast<const Vector<T>*>(a[k]);
    const auto* const b_vectors = reinterpret_cast<const Vector<T>*>(b[k]);
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      local.even[i] += a_vectors[i] * b_vectors[0];
      local.odd[i] += a_vectors[i] * b_vectors[1];
    }
  }
  sum = local;
}

EMULATOR_CLONES void multiply_floats(AccumulatorPair<float>& sum, const float (*a)[32],
                                     const float (*b)[2][8], int k_count) {
  multiply(sum, a, b, k_count);
}

EMULATOR_CLONES void multiply_integers(AccumulatorPair<std::int32_t>& sum,
                                       const std::int32_t (*a)[32], const std::int32_t (*b)[2][8],
                                       int k_count) {
  multiply(sum, a, b, k_count);
}

std::uint32_t* register_row(const WarpgroupRegisters& d, int warp, int index) {
  return d[warp][index];
}

/// The f32 accumulator: a register for the even and one for the odd columns. add(sum, warp, half,
/// block) adds the products.
template <class Add>
void multiply_f32(const WgmmaForm& form, const WarpgroupRegisters& d, bool scale_d, Add add) {
  for (int warp = 0; warp < 4; ++warp) {
    for (int block = 0; block < form.n / 8; ++block) {
      for (int half = 0; half < 2; ++half) {
        std::uint32_t* const even = register_row(d, warp, 4 * block + 2 * half);
        std::uint32_t* const odd = register_row(d, warp, 4 * block + 2 * half + 1);
        AccumulatorPair<float> sum{};
        if (scale_d) {
          std::memcpy(sum.even, even, sizeof(sum.even));
          std::memcpy(sum.odd, odd, sizeof(sum.odd));
        }
        add(sum, warp, half, block);
        std::memcpy(even, sum.even, sizeof(sum.even));
        std::memcpy(odd, sum.odd, sizeof(sum.odd));
      }
    }
  }
}

/// The f16 accumulator: the even columns are the lower, the odd ones the upper halves.
template <class Add>
void multiply_f16(const WgmmaForm& form, const WarpgroupRegisters& d, bool scale_d, Add add) {
  for (int warp = 0; warp < 4; ++warp) {
    for (int block = 0; block < form.n / 8; ++block) {
      for (int half = 0; half < 2; ++half) {
        std::uint32_t* const row = register_row(d, warp, 2 * block + half);
        AccumulatorPair<float> sum{};
        for (int lane = 0; lane < 32 && scale_d; ++lane) {
          sum.even[lane / 8][lane % 8] = f16_to_f32(static_cast<std::uint16_t>(row[lane]));
          sum.odd[lane / 8][lane % 8] = f16_to_f32(static_cast<std::uint16_t>(row[lane] >> 16));
        }
        add(sum, warp, half, block);
        for (int lane = 0; lane < 32; ++lane) {
          row[lane] = f32_to_f16x2(sum.odd[lane / 8][lane % 8], sum.even[lane / 8][lane % 8]);
        }
      }
    }
  }
}

/// sum = A B + sum for 8 lanes as the tensor cores add products of 8-bit floats; see wgmma() in
/// wgmma.h. The vectors of one k are `a_step` and `b_step` apart. `powers` are those of
/// ScaledPanel. Where `truncates`, 14 significant bits of the sum are kept.
[[gnu::always_inline]] inline void multiply_aligned(Vector<float>& sum, const Vector<float>* a,
                                                    const Vector<float>* a_powers,
                                                    const Vector<float>* b,
                                                    const Vector<float>* b_powers, bool truncates) {
  using Bits = Vector<std::int32_t>;
  constexpr int a_step = 4, b_step = 2;
  // Nothing but zeros would align to 0; this is far below the least product of two 8-bit floats.
  constexpr float floor = 0x1p-100f;
  const Bits exponent = reinterpret_cast<Bits>(sum) & 0x7F80'0000;
  Vector<float> largest = reinterpret_cast<Vector<float>>(exponent);
  largest = largest > floor ? largest : Vector<float>{} + floor;
  Vector<float> plain = sum;
  for (int k = 0; k < max_k; ++k) {
    plain += a[a_step * k] * b[b_step * k];
    const Vector<float> power = a_powers[a_step * k] * b_powers[b_step * k];
    largest = power > largest ? power : largest;
  }
  const Vector<float> unit = largest * 0x1p-13f, units = 1 / unit;
  Bits total = __builtin_convertvector(sum * units, Bits);  // towards zero, like those below
  for (int k = 0; k < max_k; ++k) {
    total += __builtin_convertvector(a[a_step * k] * b[b_step * k] * units, Bits);
  }
  const Vector<float> exact = __builtin_convertvector(total, Vector<float>) * unit;
  const Bits kept = reinterpret_cast<Bits>(exact) & (truncates ? ~0x3FF : ~0);
  // Infinities and NaN follow the rules of arithmetic: there is nothing to align.
  const Vector<float> zero_if_finite = plain - plain;
  sum = zero_if_finite == 0 ? reinterpret_cast<Vector<float>>(kept) : plain;
}

/// The same for a pair, from the panels of its warp and half, and of its block.
EMULATOR_CLONES void multiply_8_bits(AccumulatorPair<float>& sum, const float (*a)[32],
                                     const float (*a_powers)[32], const float (*b)[2][8],
                                     const float (*b_powers)[2][8], bool truncates) {
  const auto* const a_vectors = reinterpret_cast<const Vector<float>*>(a);
  const auto* const a_power_vectors = reinterpret_cast<const Vector<float>*>(a_powers);
  const auto* const b_vectors = reinterpret_cast<const Vector<float>*>(b);
  const auto* const b_power_vectors = reinterpret_cast<const Vector<float>*>(b_powers);
  for (int i = 0; i < 4; ++i) {
    multiply_aligned(sum.even[i], a_vectors + i, a_power_vectors + i, b_vectors, b_power_vectors,
                     truncates);
    multiply_aligned(sum.odd[i], a_vectors + i, a_power_vectors + i, b_vectors + 1,
                     b_power_vectors + 1, truncates);
  }
}

std::uint32_t add_integers(std::uint32_t accumulator, std::int32_t sum, bool satfinite) {
  if (!satfinite) return accumulator + static_cast<std::uint32_t>(sum);
  const auto exact = std::int64_t{static_cast<std::int32_t>(accumulator)} + sum;
  return static_cast<std::uint32_t>(std::clamp<std::int64_t>(exact, INT32_MIN, INT32_MAX));
}

void multiply_s32(const WgmmaForm& form, const WarpgroupRegisters& d, const PanelA<std::int32_t>& a,
                  const PanelB<std::int32_t>& b, bool scale_d) {
  for (int warp = 0; warp < 4; ++warp) {
    for (int block = 0; block < form.n / 8; ++block) {
      for (int half = 0; half < 2; ++half) {
        std::uint32_t* const even = register_row(d, warp, 4 * block + 2 * half);
        std::uint32_t* const odd = register_row(d, warp, 4 * block + 2 * half + 1);
        // 32 products of 8-bit integers don't overflow; the accumulator may.
        AccumulatorPair<std::int32_t> sum{};
        multiply_integers(sum, a.values[warp][half], b.values[block], form.k());
        for (int lane = 0; lane < 32; ++lane) {
          even[lane] =
              add_integers(scale_d ? even[lane] : 0, sum.even[lane / 8][lane % 8], form.satfinite);
          odd[lane] =
              add_integers(scale_d ? odd[lane] : 0, sum.odd[lane / 8][lane % 8], form.satfinite);
        }
      }
    }
  }
}

template <class T>
void negate(PanelA<T>& panel, int k_count) {
  for (auto& warp : panel.values) {
    for (auto& half : warp) {
      for (int k = 0; k < k_count; ++k) {
        for (T& value : half[k]) value = -value;
      }
    }
  }
}

/// What one instruction reads.
struct Operands {
  const ConstWarpgroupRegisters& a_registers;
  std::uint64_t descriptor_a, descriptor_b;
  const SharedWindow& shared;
};

/// Fills the panels, unless an operand lies outside shared memory.
template <class T, class A, class B>
std::optional<OutsideShared> unpack(const WgmmaForm& form, const Operands& operands, A& a, B& b) {
  const std::optional<OutsideShared> outside =
      with_element<T>(form.a, [&]<class Element>(Element) -> std::optional<OutsideShared> {
        if (!form.a_in_registers) {
          return unpack_shared<Element>(operand_a(form, operands.descriptor_a), operands.shared, a);
        }
        unpack_registers<Element>(operands.a_registers, a);
        return std::nullopt;
      });
  if (outside) return outside;
  return with_element<T>(form.b, [&]<class Element>(Element) {
    return unpack_shared<Element>(operand_b(form, operands.descriptor_b), operands.shared, b);
  });
}

bool negates_product(const WgmmaForm& form) {
  return form.negate_a != form.negate_b;
}

/// Runs a form with an f32 or f16 accumulator.
template <class Add>
void multiply_to_float(const WgmmaForm& form, const WarpgroupRegisters& d, bool scale_d, Add add) {
  if (form.d == AccumulatorType::f16) {
    multiply_f16(form, d, scale_d, add);
  } else {
    multiply_f32(form, d, scale_d, add);
  }
}

std::optional<OutsideShared> run_integers(const WgmmaForm& form, const WarpgroupRegisters& d,
                                          const Operands& operands, bool scale_d) {
  PanelA<std::int32_t> a;
  PanelB<std::int32_t> b;
  const auto outside = unpack<std::int32_t>(form, operands, a, b);
  if (!outside) multiply_s32(form, d, a, b, scale_d);
  return outside;
}

std::optional<OutsideShared> run_floats(const WgmmaForm& form, const WarpgroupRegisters& d,
                                        const Operands& operands, bool scale_d) {
  PanelA<float> a;
  PanelB<float> b;
  if (const auto outside = unpack<float>(form, operands, a, b)) return outside;
  if (negates_product(form)) negate(a, form.k());
  multiply_to_float(form, d, scale_d,
                    [&](AccumulatorPair<float>& sum, int warp, int half, int block) {
                      multiply_floats(sum, a.values[warp][half], b.values[block], form.k());
                    });
  return std::nullopt;
}

std::optional<OutsideShared> run_8_bits(const WgmmaForm& form, const WarpgroupRegisters& d,
                                        const Operands& operands, bool scale_d) {
  ScaledPanel<PanelA> a(smallest_normal(form.a));
  ScaledPanel<PanelB> b(smallest_normal(form.b));
  if (const auto outside = unpack<float>(form, operands, a, b)) return outside;
  if (negates_product(form)) negate(a.value, form.k());
  const bool truncates = form.d == AccumulatorType::f32;
  multiply_to_float(form, d, scale_d,
                    [&](AccumulatorPair<float>& sum, int warp, int half, int block) {
                      multiply_8_bits(sum, a.value.values[warp][half], a.power.values[warp][half],
                                      b.value.values[block], b.power.values[block], truncates);
                    });
  return std::nullopt;
}

bool is_integer(MatrixType type) {
  return type == MatrixType::s8 || type == MatrixType::u8;
}

bool is_fp8(MatrixType type) {
  return type == MatrixType::e4m3 || type == MatrixType::e5m2;
}

bool is_legal_n(const WgmmaForm& form) {
  if (form.n < 8 || form.n > max_n || form.n % 8 != 0) return false;
  return !is_integer(form.a) || form.n <= 32 || form.n % 16 == 0;
}

bool is_legal_accumulator(const WgmmaForm& form) {
  switch (form.d) {
    case AccumulatorType::f32:
      return !is_integer(form.a);
    case AccumulatorType::f16:
      return form.a == MatrixType::f16 || is_fp8(form.a);
    case AccumulatorType::s32:
      return is_integer(form.a);
  }
  return false;
}

}  // namespace

int element_bits(MatrixType type) {
  switch (type) {
    case MatrixType::f16:
    case MatrixType::bf16:
      return 16;
    case MatrixType::tf32:
      return 32;
    default:
      return 8;
  }
}

std::optional<std::string> refusal(const WgmmaForm& form) {
  const bool mixes =
      (is_integer(form.a) && is_integer(form.b)) || (is_fp8(form.a) && is_fp8(form.b));
  if (form.a != form.b && !mixes) {
    return "A and B must have one type; only e4m3 with e5m2 and s8 with u8 go together.";
  }
  if (!is_legal_accumulator(form)) {
    return "The accumulator type does not go with the operands: s8 and u8 take s32; bf16 and tf32 "
           "take f32; f16 and the fp8 types take f32 or f16.";
  }
  if (!is_legal_n(form)) {
    return "N is " + std::to_string(form.n) +
           "; it must be a multiple of 8 from 8 to 256, for s8 and u8 beyond 32 of 16.";
  }
  if ((form.transpose_a || form.transpose_b) && element_bits(form.a) != 16) {
    return "Only f16 and bf16 operands can be transposed; the others must be K-major.";
  }
  if (form.transpose_a && form.a_in_registers) {
    return "A in registers can't be transposed.";
  }
  if ((form.negate_a || form.negate_b) && is_integer(form.a)) {
    return "s8 and u8 operands can't be negated.";
  }
  if (form.satfinite && !is_integer(form.a)) {
    return ".satfinite is for s8 and u8 operands.";
  }
  return std::nullopt;
}

std::optional<OutsideShared> wgmma(const WgmmaForm& form, const WarpgroupRegisters& d,
                                   const ConstWarpgroupRegisters& a_registers,
                                   std::uint64_t descriptor_a, std::uint64_t descriptor_b,
                                   bool scale_d, const SharedWindow& shared) {
  const Operands operands{a_registers, descriptor_a, descriptor_b, shared};
  if (is_integer(form.a)) return run_integers(form, d, operands, scale_d);
  if (is_fp8(form.a)) return run_8_bits(form, d, operands, scale_d);
  return run_floats(form, d, operands, scale_d);
}

void operand_ranges(const WgmmaForm& form, char operand, std::uint64_t descriptor,
                    std::vector<ByteRange>& ranges) {
  constexpr std::uint32_t chunk_bytes = 16;
  ranges.clear();
  for_each_chunk(operand == 'A' ? operand_a(form, descriptor) : operand_b(form, descriptor),
                 [&](int, int, std::uint32_t address) {
                   // Chunks of a row lie side by side; a swizzle may turn them round.
                   if (ranges.empty()) {
                     ranges.push_back({address, chunk_bytes});
                   } else if (ByteRange& before = ranges.back();
                              address == before.address + before.bytes) {
                     before.bytes += chunk_bytes;
                   } else if (address + chunk_bytes == before.address) {
                     before = {address, before.bytes + chunk_bytes};
                   } else {
                     ranges.push_back({address, chunk_bytes});
                   }
                   return true;
                 });
  const auto by_address = [](const ByteRange& x, const ByteRange& y) {
    return x.address < y.address;
  };
  if (!std::is_sorted(ranges.begin(), ranges.end(), by_address)) {
    std::sort(ranges.begin(), ranges.end(), by_address);
  }
  std::size_t last = 0;
  for (const ByteRange& range : ranges) {
    ByteRange& before = ranges[last];
    const std::uint32_t before_end = before.address + before.bytes;
    if (range.address <= before_end) {
      before.bytes = std::max(before_end, range.address + range.bytes) - before.address;
    } else {
      ranges[++last] = range;
    }
  }
  ranges.resize(last + 1);
}

}  // namespace emulator
