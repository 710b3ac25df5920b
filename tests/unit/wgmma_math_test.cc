// wgmma against a triple loop over plain matrices. The matrices are placed in shared memory and in
// registers by functions that share nothing with the emulator: the canonical layouts of the ISA
// written as shapes and strides, and the swizzle as a walk over the bits of the address.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "common/emulator/formats.h"
#include "common/emulator/wgmma.h"
#include "tests/catch.h"

using emulator::AccumulatorType;
using emulator::ByteRange;
using emulator::MatrixType;
using emulator::WgmmaForm;

namespace {

constexpr std::uint32_t window_base = 1024;
constexpr std::uint32_t window_bytes = 96 * 1024;

std::uint32_t hashed(std::uint32_t i) {
  i = (i ^ 61) ^ (i >> 16);
  i *= 9;
  i ^= i >> 4;
  i *= 0x27D4'EB2D;
  return i ^ (i >> 15);
}

/// A matrix of doubles, row-major: A is M x K, B is N x K, D is M x N.
struct Matrix {
  int rows;
  int columns;
  std::vector<double> values;

  Matrix(int rows_, int columns_)
      : rows(rows_), columns(columns_), values(static_cast<std::size_t>(rows_) * columns_) {}
  double& at(int row, int column) {
    return values[static_cast<std::size_t>(row) * columns + column];
  }
  double at(int row, int column) const {
    return values[static_cast<std::size_t>(row) * columns + column];
  }
};

std::uint32_t encode(MatrixType type, double value) {
  const auto as_float = static_cast<float>(value);
  switch (type) {
    case MatrixType::f16:
      return emulator::f32_to_f16(as_float);
    case MatrixType::bf16:
      return emulator::f32_to_bf16(as_float);
    // The lower 13 bits must not matter.
    case MatrixType::tf32:
      return std::bit_cast<std::uint32_t>(as_float) | 0x1555;
    case MatrixType::e4m3:
      return emulator::f32_to_e4m3(as_float);
    case MatrixType::e5m2:
      return emulator::f32_to_e5m2(as_float);
    case MatrixType::s8:
    case MatrixType::u8:
      return static_cast<std::uint32_t>(static_cast<int>(value)) & 0xFF;
  }
  return 0;
}

int bytes_of(MatrixType type) {
  if (type == MatrixType::tf32) return 4;
  return type == MatrixType::f16 || type == MatrixType::bf16 ? 2 : 1;
}

enum class Swizzle { none = 0, b128 = 1, b64 = 2, b32 = 3 };  // as the descriptor has it

/// Where a tile lies, and what its descriptor says.
struct Placement {
  Swizzle swizzle = Swizzle::b128;
  bool mn_major = false;
  std::uint32_t start = window_base;  ///< of the tile, on a boundary of the pattern
  std::uint32_t advance = 0;          ///< added to the start in the descriptor: an inner slice of K
  std::uint32_t leading = 16;         ///< bytes
  std::uint32_t stride = 1024;        ///< bytes

  std::uint64_t descriptor() const {
    const auto field = [](std::uint32_t bytes) { return std::uint64_t{bytes / 16}; };
    return field(start + advance) | field(leading) << 16 | field(stride) << 32 |
           static_cast<std::uint64_t>(swizzle) << 62;
  }

  int row_bytes() const {
    switch (swizzle) {
      case Swizzle::none:
        return 16;
      case Swizzle::b32:
        return 32;
      case Swizzle::b64:
        return 64;
      case Swizzle::b128:
        return 128;
    }
    return 0;
  }

  /// The address of element (mn, k) of `bytes`. In units of T elements, 16 bytes:
  /// K-major, none:     ((8, m), (T, 2)):  ((1 T, SBO), (1, LBO))
  /// K-major, swizzled: ((8, m), (T, 2)):  ((w T, SBO), (1, T))
  /// MN-major, none:    ((T, 1, m), (8, k)): ((1, T, SBO), (1 T, LBO))
  /// MN-major, swizzled: ((T, w, m), (8, k)): ((1, T, LBO), (w T, SBO))
  std::uint32_t address(int mn, int k, int bytes) const {
    const int per_chunk = 16 / bytes;
    const auto row = static_cast<std::uint32_t>(row_bytes());
    const std::uint32_t chunks = row / 16;
    std::uint32_t offset = 0;
    if (!mn_major) {
      const auto within = static_cast<std::uint32_t>(k % per_chunk * bytes);
      const auto chunk = static_cast<std::uint32_t>(k / per_chunk);
      const auto r = static_cast<std::uint32_t>(mn);
      offset =
          r % 8 * row + r / 8 * stride + within + chunk * (swizzle == Swizzle::none ? leading : 16);
    } else {
      const auto within = static_cast<std::uint32_t>(mn % per_chunk * bytes);
      const auto chunk = static_cast<std::uint32_t>(mn / per_chunk);
      const auto c = static_cast<std::uint32_t>(k);
      if (swizzle == Swizzle::none) {
        offset = within + chunk * stride + c % 8 * 16 + c / 8 * leading;
      } else {
        offset =
            within + chunk % chunks * 16 + chunk / chunks * leading + c % 8 * row + c / 8 * stride;
      }
    }
    std::uint32_t result = start + advance + offset;
    // Bit 4 + i is flipped by bit 7 + i, for 1, 2 or 3 bits.
    for (std::uint32_t i = 0; (2u << i) <= chunks; ++i) {
      if ((result >> (7 + i)) % 2 == 1) result ^= 1u << (4 + i);
    }
    return result;
  }
};

/// The dense placement of a tile, with `gap` bytes of nothing between its parts.
Placement dense(Swizzle swizzle, bool mn_major, int rows, std::uint32_t start, std::uint32_t gap) {
  Placement placement{.swizzle = swizzle, .mn_major = mn_major, .start = start};
  const auto row = static_cast<std::uint32_t>(placement.row_bytes());
  const std::uint32_t group = 8 * row;  // a pattern: 8 rows, or 8 columns of K
  const std::uint32_t period = swizzle == Swizzle::none ? 16 : group;
  const std::uint32_t step = group + gap / period * period;
  if (!mn_major) {
    placement.stride = step;
    // Without a swizzle the second column of chunks follows all rows of the first.
    if (swizzle == Swizzle::none) placement.leading = step * static_cast<std::uint32_t>(rows / 8);
  } else if (swizzle == Swizzle::none) {
    placement.stride = step;
    placement.leading = step * static_cast<std::uint32_t>(rows / 8);
  } else {
    placement.stride = step;
    placement.leading = 2 * step;  // K is 16: two groups of 8 columns
  }
  return placement;
}

/// Shared memory, registers and matrices of one wgmma.
class Trial {
 public:
  Trial(const WgmmaForm& form, Placement a_place, Placement b_place)
      : a(64, form.k()),
        b(form.n, form.k()),
        d(64, form.n),
        form_(form),
        a_place_(a_place),
        b_place_(b_place),
        shared_(window_bytes, std::byte{0xA5}),
        accumulators_(4 * 128 * 32),
        fragments_(4 * 4 * 32) {
    for (int warp = 0; warp < 4; ++warp) {
      for (int i = 0; i < 128; ++i) d_rows_[warp].push_back(&accumulators_[(warp * 128 + i) * 32]);
      for (int i = 0; i < 4; ++i) a_rows_[warp].push_back(&fragments_[(warp * 4 + i) * 32]);
    }
  }

  Matrix a;
  Matrix b;
  Matrix d;

  std::optional<emulator::OutsideShared> run(bool scale_d) {
    for (int row = 0; row < 64; ++row) {
      for (int k = 0; k < form_.k(); ++k) {
        if (form_.a_in_registers) {
          put_fragment(row, k);
        } else {
          put(a_place_, form_.a, row, k, a.at(row, k));
        }
      }
    }
    for (int column = 0; column < form_.n; ++column) {
      for (int k = 0; k < form_.k(); ++k) put(b_place_, form_.b, column, k, b.at(column, k));
    }
    for (int row = 0; row < 64; ++row) {
      for (int column = 0; column < form_.n; ++column) set_d(row, column, d.at(row, column));
    }
    const emulator::WarpgroupRegisters d_registers{d_rows_[0].data(), d_rows_[1].data(),
                                                   d_rows_[2].data(), d_rows_[3].data()};
    const emulator::ConstWarpgroupRegisters a_registers{a_rows_[0].data(), a_rows_[1].data(),
                                                        a_rows_[2].data(), a_rows_[3].data()};
    return emulator::wgmma(form_, d_registers, a_registers, a_place_.descriptor(),
                           b_place_.descriptor(), scale_d, {shared_, window_base});
  }

  double result(int row, int column) const {
    const std::uint32_t word = *const_cast<Trial*>(this)->word_of(row, column);
    switch (form_.d) {
      case AccumulatorType::f32:
        return std::bit_cast<float>(word);
      case AccumulatorType::s32:
        return static_cast<std::int32_t>(word);
      case AccumulatorType::f16:
        return emulator::f16_to_f32(static_cast<std::uint16_t>(word >> (16 * (column % 2))));
    }
    return 0;
  }

 private:
  void put(const Placement& place, MatrixType type, int mn, int k, double value) {
    const std::uint32_t bits = encode(type, value);
    const int bytes = bytes_of(type);
    std::memcpy(&shared_.at(place.address(mn, k, bytes) - window_base), &bits,
                static_cast<std::size_t>(bytes));
  }

  /// The 32-bit register that holds D[row][column].
  std::uint32_t* word_of(int row, int column) {
    const int warp = row / 16;
    const int lane = 4 * (row % 8) + column % 8 / 2;
    const int half = row / 8 % 2;
    const int index = form_.d == AccumulatorType::f16 ? column / 8 * 2 + half
                                                      : column / 8 * 4 + half * 2 + column % 2;
    return d_rows_[warp][index] + lane;
  }

  void set_d(int row, int column, double value) {
    std::uint32_t& word = *word_of(row, column);
    switch (form_.d) {
      case AccumulatorType::f32:
        word = std::bit_cast<std::uint32_t>(static_cast<float>(value));
        break;
      case AccumulatorType::s32:
        word = static_cast<std::uint32_t>(static_cast<std::int32_t>(value));
        break;
      case AccumulatorType::f16: {
        const std::uint32_t half = emulator::f32_to_f16(static_cast<float>(value));
        const int shift = 16 * (column % 2);
        word = (word & ~(0xFFFFu << shift)) | half << shift;
        break;
      }
    }
  }

  void put_fragment(int row, int k) {
    const int bytes = bytes_of(form_.a);
    const int per_register = 4 / bytes;
    const int lane = 4 * (row % 8) + k / per_register % 4;
    const int reg = 2 * (k / (4 * per_register)) + row / 8 % 2;
    std::uint32_t& word = a_rows_[row / 16][reg][lane];
    const int shift = 8 * bytes * (k % per_register);
    const std::uint32_t mask = bytes == 4 ? ~0u : ((1u << (8 * bytes)) - 1) << shift;
    word = (word & ~mask) | encode(form_.a, a.at(row, k)) << shift;
  }

  WgmmaForm form_;
  Placement a_place_;
  Placement b_place_;
  std::vector<std::byte> shared_;
  std::vector<std::uint32_t> accumulators_;
  std::vector<std::uint32_t> fragments_;
  std::vector<std::uint32_t*> d_rows_[4];
  std::vector<std::uint32_t*> a_rows_[4];
};

/// Small integers (or halves) that make every sum exact in every accumulator.
void fill_exact(Matrix& matrix, std::uint32_t seed, bool is_unsigned) {
  for (std::size_t i = 0; i < matrix.values.size(); ++i) {
    const int value = static_cast<int>(hashed(seed + static_cast<std::uint32_t>(i)) % 9);
    matrix.values[i] = is_unsigned ? value : value - 4;
  }
}

void check_against_triple_loop(const WgmmaForm& form, Placement a_place, Placement b_place,
                               bool scale_d) {
  REQUIRE_FALSE(emulator::refusal(form).has_value());
  Trial trial(form, a_place, b_place);
  fill_exact(trial.a, 1, form.a == MatrixType::u8);
  fill_exact(trial.b, 100000, form.b == MatrixType::u8);
  fill_exact(trial.d, 200000, false);
  const Matrix before = trial.d;
  REQUIRE_FALSE(trial.run(scale_d).has_value());
  const double sign = form.negate_a != form.negate_b ? -1 : 1;
  int wrong = 0;
  for (int row = 0; row < 64; ++row) {
    for (int column = 0; column < form.n; ++column) {
      double sum = scale_d ? before.at(row, column) : 0;
      for (int k = 0; k < form.k(); ++k) sum += sign * trial.a.at(row, k) * trial.b.at(column, k);
      if (trial.result(row, column) != sum) ++wrong;
    }
  }
  INFO("type " << static_cast<int>(form.a) << '/' << static_cast<int>(form.b) << " D "
               << static_cast<int>(form.d) << " N " << form.n << " swizzle "
               << static_cast<int>(a_place.swizzle) << '/' << static_cast<int>(b_place.swizzle)
               << " MN-major " << form.transpose_a << form.transpose_b << " RS "
               << form.a_in_registers << " scale-d " << scale_d);
  CHECK(wrong == 0);
}

struct TypeCase {
  MatrixType a;
  MatrixType b;
  AccumulatorType d;
};

const std::vector<TypeCase>& type_cases() {
  static const std::vector<TypeCase> cases{
      {MatrixType::bf16, MatrixType::bf16, AccumulatorType::f32},
      {MatrixType::f16, MatrixType::f16, AccumulatorType::f32},
      {MatrixType::f16, MatrixType::f16, AccumulatorType::f16},
      {MatrixType::tf32, MatrixType::tf32, AccumulatorType::f32},
      {MatrixType::e4m3, MatrixType::e4m3, AccumulatorType::f32},
      {MatrixType::e4m3, MatrixType::e5m2, AccumulatorType::f32},
      {MatrixType::e5m2, MatrixType::e4m3, AccumulatorType::f16},
      {MatrixType::e5m2, MatrixType::e5m2, AccumulatorType::f16},
      {MatrixType::s8, MatrixType::s8, AccumulatorType::s32},
      {MatrixType::s8, MatrixType::u8, AccumulatorType::s32},
      {MatrixType::u8, MatrixType::s8, AccumulatorType::s32},
      {MatrixType::u8, MatrixType::u8, AccumulatorType::s32}};
  return cases;
}

constexpr Swizzle all_swizzles[] = {Swizzle::none, Swizzle::b32, Swizzle::b64, Swizzle::b128};

WgmmaForm form_of(const TypeCase& types, int n) {
  WgmmaForm form;
  form.a = types.a;
  form.b = types.b;
  form.d = types.d;
  form.n = n;
  return form;
}

constexpr std::uint32_t b_start = window_base + 32 * 1024;

}  // namespace

TEST_CASE("wgmma multiplies every type in every layout", "[wgmma]") {
  for (const TypeCase& types : type_cases()) {
    const bool can_transpose = bytes_of(types.a) == 2;
    for (Swizzle a_swizzle : all_swizzles) {
      for (Swizzle b_swizzle : all_swizzles) {
        for (int majors = 0; majors < (can_transpose ? 4 : 1); ++majors) {
          for (int n : {8, 96, 256}) {
            WgmmaForm form = form_of(types, n);
            form.transpose_a = majors % 2 == 1;
            form.transpose_b = majors / 2 == 1;
            check_against_triple_loop(form, dense(a_swizzle, form.transpose_a, 64, window_base, 0),
                                      dense(b_swizzle, form.transpose_b, n, b_start, 0), true);
          }
        }
      }
    }
  }
}

TEST_CASE("wgmma takes A from the rows of a fragment", "[wgmma]") {
  for (const TypeCase& types : type_cases()) {
    for (Swizzle b_swizzle : all_swizzles) {
      WgmmaForm form = form_of(types, 64);
      form.a_in_registers = true;
      check_against_triple_loop(form, {}, dense(b_swizzle, false, 64, b_start, 0), true);
      if (bytes_of(types.a) == 2) {
        form.transpose_b = true;
        check_against_triple_loop(form, {}, dense(b_swizzle, true, 64, b_start, 0), false);
      }
    }
  }
}

TEST_CASE("wgmma takes every legal N", "[wgmma]") {
  for (int n = 8; n <= 256; n += 8) {
    const TypeCase bf16{MatrixType::bf16, MatrixType::bf16, AccumulatorType::f32};
    check_against_triple_loop(form_of(bf16, n), dense(Swizzle::b128, false, 64, window_base, 0),
                              dense(Swizzle::b128, false, n, b_start, 0), true);
    const TypeCase s8{MatrixType::s8, MatrixType::s8, AccumulatorType::s32};
    if (emulator::refusal(form_of(s8, n))) continue;
    check_against_triple_loop(form_of(s8, n), dense(Swizzle::b64, false, 64, window_base, 0),
                              dense(Swizzle::b128, false, n, b_start, 0), true);
  }
}

TEST_CASE("wgmma follows the descriptor's offsets through gaps", "[wgmma]") {
  const TypeCase f16{MatrixType::f16, MatrixType::f16, AccumulatorType::f32};
  for (Swizzle swizzle : all_swizzles) {
    for (bool mn_major : {false, true}) {
      WgmmaForm form = form_of(f16, 128);
      form.transpose_a = mn_major;
      form.transpose_b = mn_major;
      check_against_triple_loop(form, dense(swizzle, mn_major, 64, window_base, 1024),
                                dense(swizzle, mn_major, 128, b_start, 1024), true);
    }
  }
}

TEST_CASE("a descriptor steps through K inside the swizzle pattern", "[wgmma]") {
  const TypeCase bf16{MatrixType::bf16, MatrixType::bf16, AccumulatorType::f32};
  for (std::uint32_t advance : {32u, 64u, 96u}) {
    Placement a_place = dense(Swizzle::b128, false, 64, window_base, 0);
    Placement b_place = dense(Swizzle::b128, false, 64, b_start, 0);
    a_place.advance = advance;
    b_place.advance = advance;
    check_against_triple_loop(form_of(bf16, 64), a_place, b_place, false);
  }
}

TEST_CASE("a tile off the pattern's boundary needs its base offset", "[wgmma]") {
  // The tile starts 3 rows into a pattern of 8 and is swizzled by its own rows.
  const std::uint32_t start = window_base + 3 * 128;
  const emulator::MatrixDescriptor descriptor{.address = start,
                                              .leading_bytes = 16,
                                              .stride_bytes = 1024,
                                              .base_offset = 3,
                                              .swizzle = emulator::SwizzleMode::b128};
  for (std::uint32_t row = 0; row < 16; ++row) {
    for (std::uint32_t chunk = 0; chunk < 2; ++chunk) {
      CHECK(emulator::chunk_address(descriptor, emulator::Major::k, row, chunk) ==
            start + 128 * row + 16 * (chunk ^ row % 8));
    }
  }
  CHECK(emulator::decode_descriptor(std::uint64_t{5} << 49).base_offset == 5);
}

TEST_CASE("wgmma negates operands and ignores D without scale-d", "[wgmma]") {
  const TypeCase types[] = {{MatrixType::bf16, MatrixType::bf16, AccumulatorType::f32},
                            {MatrixType::e4m3, MatrixType::e4m3, AccumulatorType::f16}};
  const Placement a_place = dense(Swizzle::b128, false, 64, window_base, 0);
  const Placement b_place = dense(Swizzle::b128, false, 32, b_start, 0);
  for (const TypeCase& type : types) {
    for (int signs = 0; signs < 4; ++signs) {
      for (bool scale_d : {false, true}) {
        WgmmaForm form = form_of(type, 32);
        form.negate_a = signs % 2 == 1;
        form.negate_b = signs / 2 == 1;
        check_against_triple_loop(form, a_place, b_place, scale_d);
      }
    }
  }
  Trial trial(form_of(types[0], 32), a_place, b_place);
  std::fill(trial.d.values.begin(), trial.d.values.end(), std::numeric_limits<double>::quiet_NaN());
  REQUIRE_FALSE(trial.run(false).has_value());
  for (int row = 0; row < 64; ++row) CHECK(trial.result(row, row % 32) == 0);
}

TEST_CASE("wgmma passes on NaN and infinity", "[wgmma]") {
  const TypeCase bf16{MatrixType::bf16, MatrixType::bf16, AccumulatorType::f32};
  Trial trial(form_of(bf16, 16), dense(Swizzle::b128, false, 64, window_base, 0),
              dense(Swizzle::b128, false, 16, b_start, 0));
  fill_exact(trial.b, 3, true);
  for (double& value : trial.b.values) value += 1;
  trial.a.at(5, 3) = std::numeric_limits<double>::quiet_NaN();
  trial.a.at(40, 15) = std::numeric_limits<double>::infinity();
  REQUIRE_FALSE(trial.run(true).has_value());
  for (int column = 0; column < 16; ++column) {
    CHECK(std::isnan(trial.result(5, column)));
    CHECK(trial.result(40, column) == std::numeric_limits<double>::infinity());
    CHECK(trial.result(6, column) == 0);
  }
}

TEST_CASE("wgmma adds random values within fp32's error", "[wgmma]") {
  for (MatrixType type : {MatrixType::bf16, MatrixType::f16, MatrixType::tf32}) {
    const WgmmaForm form = form_of({type, type, AccumulatorType::f32}, 64);
    Trial trial(form, dense(Swizzle::b128, false, 64, window_base, 0),
                dense(Swizzle::b128, false, 64, b_start, 0));
    const emulator::FloatFormat format = type == MatrixType::bf16  ? emulator::format::bf16
                                         : type == MatrixType::f16 ? emulator::format::f16
                                                                   : emulator::format::tf32;
    std::uint32_t seed = 7;
    for (Matrix* matrix : {&trial.a, &trial.b}) {
      for (double& value : matrix->values) {
        const double uniform = hashed(seed++) / 0x1p31 - 1;
        value = emulator::widen(format, emulator::narrow(format, uniform));
      }
    }
    REQUIRE_FALSE(trial.run(true).has_value());
    for (int row = 0; row < 64; ++row) {
      for (int column = 0; column < 64; ++column) {
        double sum = 0;
        double magnitude = 0;
        for (int k = 0; k < form.k(); ++k) {
          const double product = trial.a.at(row, k) * trial.b.at(column, k);
          sum += product;
          magnitude += std::fabs(product);
        }
        REQUIRE(std::fabs(trial.result(row, column) - sum) <= form.k() * 0x1p-24 * magnitude);
      }
    }
  }
}

/// One row of A times one column of B, all of them alike.
double one_sum(const TypeCase& types, double d, double a, double b, double first_product = 0) {
  Trial trial(form_of(types, 8), dense(Swizzle::b128, false, 64, window_base, 0),
              dense(Swizzle::b128, false, 8, b_start, 0));
  for (int row = 0; row < 64; ++row) {
    for (int k = 0; k < 32; ++k) trial.a.at(row, k) = a;
  }
  for (int column = 0; column < 8; ++column) {
    for (int k = 0; k < 32; ++k) trial.b.at(column, k) = b;
    for (int row = 0; row < 64; ++row) trial.d.at(row, column) = d;
    if (first_product != 0) trial.b.at(column, 0) = first_product / a;
  }
  REQUIRE_FALSE(trial.run(true).has_value());
  return trial.result(0, 0);
}

TEST_CASE("wgmma of 8-bit floats keeps 13 bits below the largest exponent", "[wgmma]") {
  const TypeCase e4m3{MatrixType::e4m3, MatrixType::e4m3, AccumulatorType::f32};
  const TypeCase e5m2{MatrixType::e5m2, MatrixType::e5m2, AccumulatorType::f32};
  for (const TypeCase& types : {e4m3, e5m2}) {
    // A product of 1 counts beside sums below 2^14, and then no more.
    CHECK(one_sum(types, 0x1p14 - 32, 1, 1) == 0x1p14);
    CHECK(one_sum(types, 0x1p14, 1, 1) == 0x1p14);
    CHECK(one_sum(types, 0x1p14, 1.5, 1.5) == 0x1p14 + 64);  // 2.25 is truncated to 2
    CHECK(one_sum(types, -0x1p14, -1, 1) == -0x1p14);
    CHECK(one_sum(types, -0x1p14, 1, 1) == -0x1p14);
    // The sum of a step is exact, and then truncated to 14 bits: 16380 + 51 is not 16431.
    CHECK(one_sum(types, 0x1p14 - 4, 1, 1, 20) == 0x1p14 + 46);
  }
  // 1.5 * 1.5 = 2.25 has the exponent of 1 * 1: beside it, 31 times 2^-13 are kept.
  CHECK(one_sum(e5m2, 0, 1.5, 0x1p-13, 2.25) == 2.25 + 15 * 0x1p-12);
  const TypeCase f16{MatrixType::e5m2, MatrixType::e5m2, AccumulatorType::f16};
  CHECK(one_sum(f16, 2048, 1, 1) == 2080);
  CHECK(one_sum(e4m3, std::numeric_limits<double>::infinity(), 1, 1) ==
        std::numeric_limits<double>::infinity());
  CHECK(std::isnan(one_sum(e4m3, 0, std::numeric_limits<double>::quiet_NaN(), 1)));
}

TEST_CASE("s32 accumulators wrap, or clamp with .satfinite", "[wgmma]") {
  const TypeCase types{MatrixType::u8, MatrixType::u8, AccumulatorType::s32};
  for (bool satfinite : {false, true}) {
    WgmmaForm form = form_of(types, 8);
    form.satfinite = satfinite;
    Trial trial(form, dense(Swizzle::b32, false, 64, window_base, 0),
                dense(Swizzle::b32, false, 8, b_start, 0));
    for (Matrix* matrix : {&trial.a, &trial.b}) {
      std::fill(matrix->values.begin(), matrix->values.end(), 255);
    }
    std::fill(trial.d.values.begin(), trial.d.values.end(), 2147483647.0);
    REQUIRE_FALSE(trial.run(true).has_value());
    const double sum = 32.0 * 255 * 255;
    const double wrapped = 2147483647.0 + sum - 4294967296.0;
    CHECK(trial.result(63, 7) == (satfinite ? 2147483647.0 : wrapped));
  }
}

TEST_CASE("a descriptor outside shared memory is named and changes nothing", "[wgmma]") {
  const TypeCase bf16{MatrixType::bf16, MatrixType::bf16, AccumulatorType::f32};
  const Placement inside = dense(Swizzle::b128, false, 64, window_base, 0);
  Placement outside = inside;
  outside.stride = 14 * 1024;  // the last 8 rows of 64 start at 98 KB
  const auto descriptor_outside = [&](Placement a_place, Placement b_place) {
    const WgmmaForm form = form_of(bf16, 64);
    std::vector<std::byte> shared(window_bytes);
    std::vector<std::uint32_t> row(32, 12345);
    const std::vector<std::uint32_t*> rows(128, row.data());
    const auto result =
        emulator::wgmma(form, {rows.data(), rows.data(), rows.data(), rows.data()}, {},
                        a_place.descriptor(), b_place.descriptor(), true, {shared, window_base});
    CHECK(row == std::vector<std::uint32_t>(32, 12345));
    return result;
  };
  const auto a_outside = descriptor_outside(outside, inside);
  REQUIRE(a_outside.has_value());
  CHECK(a_outside->operand == 'A');
  CHECK(a_outside->address == window_base + 7 * 14 * 1024);
  const auto b_outside = descriptor_outside(inside, outside);
  REQUIRE(b_outside.has_value());
  CHECK(b_outside->operand == 'B');
  Placement last_fit = inside;
  last_fit.start = window_base + window_bytes - 8 * 1024;
  CHECK_FALSE(descriptor_outside(last_fit, inside).has_value());
  last_fit.start += 1024;
  const auto just_beyond = descriptor_outside(last_fit, inside);
  REQUIRE(just_beyond.has_value());
  CHECK(just_beyond->address == window_base + window_bytes);
  Placement below = inside;
  below.start = 0;
  const auto under_the_window = descriptor_outside(below, inside);
  REQUIRE(under_the_window.has_value());
  CHECK(under_the_window->address == 0);
}

TEST_CASE("operand ranges are exactly the bytes of the tile, merged", "[wgmma]") {
  for (Swizzle swizzle : all_swizzles) {
    for (bool mn_major : {false, true}) {
      for (std::uint32_t gap : {0u, 1024u}) {
        WgmmaForm form = form_of({MatrixType::bf16, MatrixType::bf16, AccumulatorType::f32}, 96);
        form.transpose_b = mn_major;
        const Placement place = dense(swizzle, mn_major, 96, b_start, gap);
        std::set<std::uint32_t> expected;
        for (int column = 0; column < 96; ++column) {
          for (int k = 0; k < 16; ++k) {
            const std::uint32_t address = place.address(column, k, 2);
            expected.insert(address);
            expected.insert(address + 1);
          }
        }
        std::vector<ByteRange> ranges;
        emulator::operand_ranges(form, 'B', place.descriptor(), ranges);
        std::set<std::uint32_t> covered;
        std::uint32_t end = 0;
        for (const ByteRange& range : ranges) {
          CHECK(range.address > end);
          end = range.address + range.bytes;
          for (std::uint32_t i = range.address; i < end; ++i) covered.insert(i);
        }
        CHECK(covered == expected);
      }
    }
  }
  std::vector<ByteRange> whole;
  const Placement tile = dense(Swizzle::b32, false, 64, window_base, 0);
  emulator::operand_ranges(WgmmaForm{}, 'A', tile.descriptor(), whole);
  CHECK(whole == std::vector<ByteRange>{{window_base, 64 * 32}});
}

TEST_CASE("forms that the ISA does not have are refused in words", "[wgmma]") {
  const auto reason = [](const std::function<void(WgmmaForm&)>& change) {
    WgmmaForm form;
    change(form);
    return emulator::refusal(form).value_or("");
  };
  CHECK(reason([](WgmmaForm&) {}).empty());
  CHECK(reason([](WgmmaForm& f) { f.n = 12; }).find("N is 12") == 0);
  CHECK(reason([](WgmmaForm& f) { f.n = 264; }).find("N is 264") == 0);
  CHECK(reason([](WgmmaForm& f) { f.b = MatrixType::f16; }).find("one type") != std::string::npos);
  CHECK(reason([](WgmmaForm& f) { f.d = AccumulatorType::f16; }).find("accumulator") !=
        std::string::npos);
  CHECK(reason([](WgmmaForm& f) { f.satfinite = true; }).find(".satfinite") == 0);
  CHECK(reason([](WgmmaForm& f) {
          f.a_in_registers = true;
          f.transpose_a = true;
        }).find("A in registers") == 0);
  CHECK(reason([](WgmmaForm& f) {
          f.a = f.b = MatrixType::tf32;
          f.transpose_b = true;
        }).find("K-major") != std::string::npos);
  CHECK(reason([](WgmmaForm& f) {
          f.a = f.b = MatrixType::s8;
          f.d = AccumulatorType::s32;
          f.n = 40;
        }).find("N is 40") == 0);
  CHECK(reason([](WgmmaForm& f) {
          f.a = f.b = MatrixType::s8;
          f.d = AccumulatorType::s32;
          f.negate_a = true;
        }).find("negated") != std::string::npos);
  CHECK(reason([](WgmmaForm& f) {
          f.a = MatrixType::u8;
          f.b = MatrixType::s8;
          f.d = AccumulatorType::s32;
          f.n = 240;
        }).empty());
}
