#include "tests/golden/wgmma_cases.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "common/emulator/formats.h"
#include "common/emulator/fragments.h"
#include "tests/golden/hash.h"
#include "tests/golden/wgmma_forms.h"

namespace golden {
namespace {

using emulator::AccumulatorType;
using emulator::Major;
using emulator::MatrixType;
using emulator::SwizzleMode;
using emulator::WgmmaForm;

// What the tokens of GOLDEN_WGMMA_FORMS stand for.
constexpr bool source_ss = false, source_rs = true;
constexpr bool sign_plus = false, sign_minus = true;
constexpr bool saturation_wrap = false, saturation_satfinite = true;

std::vector<WgmmaForm> all_forms() {
  std::vector<WgmmaForm> forms;
#define GOLDEN_ADD(a_, b_, d_, n_, source, negate_a_, negate_b_, transpose_a_, transpose_b_, sat) \
  forms.push_back({.a = MatrixType::a_,                                                           \
                   .b = MatrixType::b_,                                                           \
                   .d = AccumulatorType::d_,                                                      \
                   .n = n_,                                                                       \
                   .a_in_registers = source_##source,                                             \
                   .negate_a = sign_##negate_a_,                                                  \
                   .negate_b = sign_##negate_b_,                                                  \
                   .transpose_a = transpose_a_ == 1,                                              \
                   .transpose_b = transpose_b_ == 1,                                              \
                   .satfinite = saturation_##sat});
  GOLDEN_WGMMA_FORMS(GOLDEN_ADD)
#undef GOLDEN_ADD
  return forms;
}

const char* name(MatrixType type) {
  constexpr std::array<const char*, 7> names{"f16", "bf16", "tf32", "e4m3", "e5m2", "s8", "u8"};
  return names.at(static_cast<std::size_t>(type));
}

const char* name(AccumulatorType type) {
  constexpr std::array<const char*, 3> names{"f32", "f16", "s32"};
  return names.at(static_cast<std::size_t>(type));
}

const char* name(SwizzleMode mode) {
  constexpr std::array<const char*, 4> names{"none", "b32", "b64", "b128"};
  return names.at(static_cast<std::size_t>(mode));
}

/// "m64n96k16.f32.bf16.bf16 rs -a sat"
std::string form_name(const WgmmaForm& form) {
  std::string text = "m64n" + std::to_string(form.n) + "k" + std::to_string(form.k()) + "." +
                     name(form.d) + "." + name(form.a) + "." + name(form.b);
  text += form.a_in_registers ? " rs" : " ss";
  if (form.negate_a) text += " -a";
  if (form.negate_b) text += " -b";
  if (form.transpose_a) text += " ta";
  if (form.transpose_b) text += " tb";
  if (form.satfinite) text += " sat";
  return text;
}

Major major(bool transposed) {
  return transposed ? Major::mn : Major::k;
}

std::uint64_t tile_a(const WgmmaForm& form, SwizzleMode swizzle, std::uint32_t gap = 0) {
  const auto bits = static_cast<std::uint32_t>(emulator::element_bits(form.a));
  return tile_descriptor(0, swizzle, major(form.transpose_a), 64, bits, gap);
}

std::uint64_t tile_b(const WgmmaForm& form, SwizzleMode swizzle, std::uint32_t gap = 0) {
  const auto bits = static_cast<std::uint32_t>(emulator::element_bits(form.b));
  return tile_descriptor(b_offset, swizzle, major(form.transpose_b),
                         static_cast<std::uint32_t>(form.n), bits, gap);
}

std::uint64_t base_offset_field(std::uint32_t base_offset) {
  return std::uint64_t{base_offset} << 49;
}

/// Builds the list.
class Cases {
 public:
  std::vector<WgmmaCase> take() { return std::move(cases_); }

  void add_layouts() {
    struct Swizzles {
      SwizzleMode a, b;
    };
    constexpr Swizzles pairs[] = {{SwizzleMode::b128, SwizzleMode::b128},
                                  {SwizzleMode::b64, SwizzleMode::b32},
                                  {SwizzleMode::b32, SwizzleMode::none},
                                  {SwizzleMode::none, SwizzleMode::b64}};
    for (std::size_t i = 0; i < forms_.size(); ++i) {
      for (const Swizzles& pair : pairs) {
        for (bool scale_d : {true, false}) {
          // Without D only once, and with the unswizzled A from registers no more than once.
          if (!scale_d && pair.a != SwizzleMode::b128) continue;
          WgmmaCase c = of_form(i);
          c.name = form_name(c.form) + " A " + name(pair.a) + " B " + name(pair.b);
          if (!scale_d) c.name += " no-d";
          c.descriptor_a = tile_a(c.form, pair.a);
          c.descriptor_b = tile_b(c.form, pair.b);
          c.scale_d = scale_d;
          add(c);
        }
      }
    }
  }

  /// Gaps between the groups of a tile, and slices inside the 128-byte pattern.
  void add_offsets() {
    for (bool transposed : {false, true}) {
      for (SwizzleMode swizzle :
           {SwizzleMode::none, SwizzleMode::b32, SwizzleMode::b64, SwizzleMode::b128}) {
        WgmmaCase c = of_form(find(MatrixType::bf16, AccumulatorType::f32, 96, false, transposed));
        c.name = form_name(c.form) + " gaps " + name(swizzle);
        c.descriptor_a = tile_a(c.form, swizzle, 1024);
        c.descriptor_b = tile_b(c.form, swizzle, 1024);
        add(c);
      }
    }
    for (std::uint32_t slice = 1; slice < 4; ++slice) {
      WgmmaCase c = of_form(find(MatrixType::bf16, AccumulatorType::f32, 96, false, false));
      c.name = form_name(c.form) + " slice " + std::to_string(slice);
      c.descriptor_a = tile_a(c.form, SwizzleMode::b128) + 2 * slice;
      c.descriptor_b = tile_b(c.form, SwizzleMode::b128) + 2 * slice;
      add(c);
    }
  }

  void add_accuracy() {
    struct Types {
      MatrixType operand;
      AccumulatorType accumulator;
    };
    constexpr Types types[] = {
        {MatrixType::bf16, AccumulatorType::f32}, {MatrixType::f16, AccumulatorType::f32},
        {MatrixType::tf32, AccumulatorType::f32}, {MatrixType::e4m3, AccumulatorType::f32},
        {MatrixType::e5m2, AccumulatorType::f32}, {MatrixType::f16, AccumulatorType::f16},
        {MatrixType::e4m3, AccumulatorType::f16}};
    for (const Types& type : types) {
      for (WgmmaInput input : {WgmmaInput::near, WgmmaInput::wide}) {
        for (std::uint32_t repeat = 0; repeat < 4; ++repeat) {
          WgmmaCase c = of_form(find(type.operand, type.accumulator, 8, false, false));
          c.name = form_name(c.form) + (input == WgmmaInput::near ? " near " : " wide ") +
                   std::to_string(repeat);
          c.descriptor_a = tile_a(c.form, SwizzleMode::b128);
          c.descriptor_b = tile_b(c.form, SwizzleMode::b128);
          c.scale_d = repeat % 2 == 1;
          c.input = input;
          add(c);
        }
      }
    }
  }

  /// Where the elements of D and of A in registers are.
  void add_positions() {
    add_position("accumulator", find(MatrixType::f16, AccumulatorType::f32, 96, false, false), 0);
    add_position("accumulator", find(MatrixType::f16, AccumulatorType::f16, 8, false, false), 0);
    for (std::uint32_t part = 0; part < 2; ++part) {
      add_position("A", find(MatrixType::f16, AccumulatorType::f32, 8, true, false), part);
    }
    add_position("A", find(MatrixType::tf32, AccumulatorType::f32, 8, true, false), 0);
    for (std::uint32_t part = 0; part < 8; ++part) {
      add_position("A", find(MatrixType::s8, AccumulatorType::s32, 8, true, false), part);
    }
  }

  /// Which chunks a descriptor makes the hardware read.
  void add_chunks() {
    for (char operand : {'A', 'B'}) {
      for (bool transposed : {false, true}) {
        for (SwizzleMode swizzle :
             {SwizzleMode::none, SwizzleMode::b32, SwizzleMode::b64, SwizzleMode::b128}) {
          for (std::uint32_t base_offset = 0; base_offset < 8; ++base_offset) {
            for (std::uint32_t start : {0u, 128u, 256u, 384u}) {
              if (operand == 'B' && (start % 256 != 0 || base_offset % 3 == 2)) continue;
              if (swizzle == SwizzleMode::none && base_offset % 4 != 0) continue;
              add_chunk_case(operand, transposed, swizzle, base_offset, start);
            }
          }
        }
      }
    }
  }

 private:
  std::size_t find(MatrixType type, AccumulatorType d, int n, bool a_in_registers,
                   bool transposed) const {
    const auto found = std::find_if(forms_.begin(), forms_.end(), [&](const WgmmaForm& form) {
      return form.a == type && form.b == type && form.d == d && form.n == n &&
             form.a_in_registers == a_in_registers && form.transpose_a == transposed &&
             form.transpose_b == transposed && !form.negate_a && !form.negate_b && !form.satfinite;
    });
    return static_cast<std::size_t>(found - forms_.begin());
  }

  /// The f16 form in which only one operand is transposed.
  std::size_t find_transposed(char operand) const {
    const auto found = std::find_if(forms_.begin(), forms_.end(), [&](const WgmmaForm& form) {
      return form.a == MatrixType::f16 && form.d == AccumulatorType::f32 && form.n == 96 &&
             !form.a_in_registers && form.transpose_a == (operand == 'A') &&
             form.transpose_b == (operand == 'B');
    });
    return static_cast<std::size_t>(found - forms_.begin());
  }

  WgmmaCase of_form(std::size_t index) const {
    WgmmaCase c;
    c.form_index = static_cast<int>(index);
    c.form = forms_.at(index);
    return c;
  }

  void add(WgmmaCase c) {
    c.seed = static_cast<std::uint32_t>(cases_.size() + 1);
    cases_.push_back(std::move(c));
  }

  void add_position(const std::string& what, std::size_t form, std::uint32_t part) {
    WgmmaCase c = of_form(form);
    c.name = form_name(c.form) + " positions of " + what + " " + std::to_string(part);
    c.descriptor_a = tile_a(c.form, SwizzleMode::none);
    c.descriptor_b = tile_b(c.form, SwizzleMode::none);
    c.scale_d = false;
    c.input = WgmmaInput::positions;
    cases_.push_back(std::move(c));
    cases_.back().seed = part;
  }

  void add_chunk_case(char operand, bool transposed, SwizzleMode swizzle, std::uint32_t base_offset,
                      std::uint32_t start) {
    WgmmaCase c =
        of_form(transposed ? find_transposed(operand)
                           : find(MatrixType::f16, AccumulatorType::f32, 96, false, false));
    c.name = std::string("chunks of ") + operand + (transposed ? " MN-major " : " K-major ") +
             name(swizzle) + " base " + std::to_string(base_offset) + " start " +
             std::to_string(start);
    const bool of_a = operand == 'A';
    c.descriptor_a = tile_a(c.form, of_a ? swizzle : SwizzleMode::none);
    c.descriptor_b = tile_b(c.form, of_a ? SwizzleMode::none : swizzle);
    (of_a ? c.descriptor_a : c.descriptor_b) += base_offset_field(base_offset) + start / 16;
    c.scale_d = false;
    c.input = WgmmaInput::chunks;
    c.seed = static_cast<std::uint32_t>(operand);
    cases_.push_back(std::move(c));
  }

  std::vector<WgmmaForm> forms_ = all_forms();
  std::vector<WgmmaCase> cases_;
};

// ---- Elements.

/// The bits of 0, 1, 2, 3 or 4.
std::uint32_t small_integer(MatrixType type, std::uint32_t value) {
  constexpr std::array<std::uint32_t, 5> f16{0, 0x3C00, 0x4000, 0x4200, 0x4400};
  constexpr std::array<std::uint32_t, 5> bf16{0, 0x3F80, 0x4000, 0x4040, 0x4080};
  constexpr std::array<std::uint32_t, 5> e4m3{0, 0x38, 0x40, 0x44, 0x48};
  constexpr std::array<std::uint32_t, 5> e5m2{0, 0x3C, 0x40, 0x42, 0x44};
  switch (type) {
    case MatrixType::f16:
      return f16[value];
    case MatrixType::bf16:
      return bf16[value];
    case MatrixType::tf32:
      return bf16[value] << 16;
    case MatrixType::e4m3:
      return e4m3[value];
    case MatrixType::e5m2:
      return e5m2[value];
    default:
      return value;
  }
}

std::uint32_t sign_bit(MatrixType type) {
  return 1u << (emulator::element_bits(type) - 1);
}

/// The lowest exponent of `near` and `wide` elements, and where the exponent field begins.
struct Exponents {
  std::uint32_t near_first, wide_first, wide_count;
  int shift;
};

Exponents exponents(MatrixType type) {
  switch (type) {
    case MatrixType::f16:
      return {12, 1, 16, 10};
    case MatrixType::bf16:
      return {124, 119, 16, 7};
    case MatrixType::tf32:
      return {124, 119, 16, 23};
    case MatrixType::e4m3:
      return {4, 0, 12, 3};
    default:
      return {12, 3, 16, 2};
  }
}

/// An element out of random bits.
std::uint32_t element(MatrixType type, WgmmaInput input, std::uint32_t random) {
  const std::uint32_t mask = ~0u >> (32 - emulator::element_bits(type));
  if (type == MatrixType::s8 || type == MatrixType::u8) return random & mask;
  const std::uint32_t sign = random % 2 == 0 ? 0 : sign_bit(type);
  if (input == WgmmaInput::exact) {
    // wgmma drops the 13 low bits of tf32.
    const std::uint32_t dropped = type == MatrixType::tf32 ? random >> 19 : 0;
    return sign | small_integer(type, random / 2 % 5) | dropped;
  }
  const Exponents range = exponents(type);
  const std::uint32_t mantissa = random >> 8 & ((1u << range.shift) - 1);
  const std::uint32_t exponent = input == WgmmaInput::near
                                     ? range.near_first + random / 2 % 4
                                     : range.wide_first + random / 2 % range.wide_count;
  return sign | exponent << range.shift | mantissa;
}

std::uint32_t f32_accumulator(WgmmaInput input, std::uint32_t random) {
  return element(MatrixType::tf32, input, random) & (input == WgmmaInput::exact ? ~0x1FFFu : ~0u);
}

std::uint32_t accumulator(AccumulatorType type, WgmmaInput input, std::uint32_t random) {
  switch (type) {
    case AccumulatorType::f32:
      return f32_accumulator(input, random);
    case AccumulatorType::s32:
      return random;
    case AccumulatorType::f16:
      return element(MatrixType::f16, input, random) |
             element(MatrixType::f16, input, hashed(random, 1)) << 16;
  }
  return 0;
}

void put(std::vector<std::byte>& image, std::uint32_t offset, std::uint32_t bits, int bytes) {
  std::memcpy(&image.at(offset), &bits, static_cast<std::size_t>(bytes));
}

/// Element (row, k) of a dense tile without a swizzle.
void put_unswizzled(std::vector<std::byte>& image, std::uint64_t descriptor, std::uint32_t row,
                    std::uint32_t k, std::uint32_t bits, int bytes) {
  const emulator::MatrixDescriptor tile = emulator::decode_descriptor(descriptor);
  const auto byte = k * static_cast<std::uint32_t>(bytes);
  put(image, emulator::chunk_address(tile, Major::k, row, byte / 16) + byte % 16, bits, bytes);
}

std::uint32_t integer_element(MatrixType type, std::uint32_t value) {
  const auto as_float = static_cast<float>(value);
  switch (type) {
    case MatrixType::f16:
      return emulator::f32_to_f16(as_float);
    case MatrixType::tf32:
      return emulator::f32_to_tf32(as_float);
    default:
      return value;
  }
}

std::vector<std::byte> random_image(const WgmmaCase& c) {
  std::vector<std::byte> image(image_bytes);
  const auto fill = [&](MatrixType type, std::uint32_t begin, std::uint32_t end) {
    const int bytes = emulator::element_bits(type) / 8;
    for (std::uint32_t i = begin; i < end; i += static_cast<std::uint32_t>(bytes)) {
      put(image, i, element(type, c.input, hashed(c.seed, i)), bytes);
    }
  };
  fill(c.form.a, 0, b_offset);
  fill(c.form.b, b_offset, image_bytes);
  return image;
}

WgmmaOperands random_operands(const WgmmaCase& c) {
  WgmmaOperands operands;
  operands.image = random_image(c);
  const int bits = emulator::element_bits(c.form.a);
  for (std::uint32_t i = 0; i < WgmmaForm::a_registers * 128; ++i) {
    std::uint32_t word = 0;
    for (int shift = 0; shift < 32; shift += bits) {
      const std::uint32_t random = hashed(c.seed + 0x10000, 4 * i + shift / 8);
      word |= element(c.form.a, c.input, random) << shift;
    }
    operands.a.push_back(word);
  }
  const auto words = static_cast<std::uint32_t>(c.form.accumulator_registers()) * 128;
  for (std::uint32_t i = 0; i < words; ++i) {
    operands.d.push_back(accumulator(c.form.d, c.input, hashed(c.seed + 0x20000, i)));
  }
  return operands;
}

/// D[m][n] = n_count m + n, as A = {m, 1, 0...} and B = {n_count, n, 0...} give it.
void fill_accumulator_positions(const WgmmaCase& c, WgmmaOperands& operands) {
  const auto n_count = static_cast<std::uint32_t>(c.form.n == 8 ? 8 : 128);
  for (std::uint32_t m = 0; m < 64; ++m) {
    put_unswizzled(operands.image, c.descriptor_a, m, 0, integer_element(c.form.a, m), 2);
    put_unswizzled(operands.image, c.descriptor_a, m, 1, integer_element(c.form.a, 1), 2);
  }
  for (std::uint32_t n = 0; n < static_cast<std::uint32_t>(c.form.n); ++n) {
    put_unswizzled(operands.image, c.descriptor_b, n, 0, integer_element(c.form.b, n_count), 2);
    put_unswizzled(operands.image, c.descriptor_b, n, 1, integer_element(c.form.b, n), 2);
  }
}

/// A's elements are numbered, thread by thread; B takes 8 columns of it out: D[m][n] =
/// A[m][8 part + n]. Numbers beyond 7 bits go in two cases, low and high.
void fill_a_positions(const WgmmaCase& c, WgmmaOperands& operands) {
  const int bits = emulator::element_bits(c.form.a);
  const std::uint32_t per_register = 32 / static_cast<std::uint32_t>(bits);
  const std::uint32_t parts = static_cast<std::uint32_t>(c.form.k()) / 8;
  const std::uint32_t part = c.seed % parts;
  const bool high = c.seed / parts == 1;
  for (std::uint32_t n = 0; n < 8; ++n) {
    put_unswizzled(operands.image, c.descriptor_b, n, 8 * part + n, integer_element(c.form.b, 1),
                   bits / 8);
  }
  for (std::uint32_t reg = 0; reg < WgmmaForm::a_registers; ++reg) {
    for (std::uint32_t thread = 0; thread < 128; ++thread) {
      for (std::uint32_t i = 0; i < per_register; ++i) {
        std::uint32_t number = (thread * WgmmaForm::a_registers + reg) * per_register + i;
        if (bits == 8) number = high ? number >> 6 : number & 63;
        operands.a[reg * 128 + thread] |= integer_element(c.form.a, number)
                                          << (i * static_cast<std::uint32_t>(bits));
      }
    }
  }
}

/// The chunks of one operand are numbered, and the other operand is the identity.
void fill_chunks(const WgmmaCase& c, WgmmaOperands& operands) {
  const bool of_a = chunk_operand(c) == 'A';
  const std::uint32_t begin = of_a ? 0 : b_offset;
  const std::uint32_t end = of_a ? b_offset : image_bytes;
  for (std::uint32_t offset = begin; offset < end; offset += 2) {
    const std::uint32_t chunk = std::min((offset - begin) / 16, 2047u);
    put(operands.image, offset, integer_element(MatrixType::f16, chunk), 2);
  }
  for (std::uint32_t i = 0; i < 16; ++i) {
    put_unswizzled(operands.image, of_a ? c.descriptor_b : c.descriptor_a, i, i, 0x3C00, 2);
  }
}

}  // namespace

std::uint64_t tile_descriptor(std::uint32_t offset, SwizzleMode swizzle, Major major,
                              std::uint32_t rows, std::uint32_t element_bits, std::uint32_t gap) {
  const std::uint32_t pattern = 8 * emulator::swizzle_span(swizzle);
  const std::uint32_t group = pattern + gap;
  const std::uint32_t chunk_rows = major == Major::k ? 1 : 128 / element_bits;
  std::uint32_t leading = 16;
  std::uint32_t stride = group;
  if (swizzle == SwizzleMode::none) {
    // All groups of rows first, then the second half of K.
    leading = group * (major == Major::k ? rows / 8 : rows / chunk_rows);
  } else if (major == Major::mn) {
    leading = 2 * group;
  }
  constexpr std::array<std::uint64_t, 4> modes{0, 3, 2, 1};
  return std::uint64_t{offset / 16} | std::uint64_t{leading / 16} << 16 |
         std::uint64_t{stride / 16} << 32 | modes[static_cast<std::size_t>(swizzle)] << 62;
}

std::vector<WgmmaCase> wgmma_cases() {
  Cases cases;
  cases.add_layouts();
  cases.add_offsets();
  cases.add_accuracy();
  cases.add_positions();
  cases.add_chunks();
  return cases.take();
}

WgmmaOperands operands(const WgmmaCase& c) {
  if (c.input != WgmmaInput::positions && c.input != WgmmaInput::chunks) return random_operands(c);
  WgmmaOperands operands;
  operands.image.resize(image_bytes);
  operands.a.resize(WgmmaForm::a_registers * 128);
  operands.d.resize(static_cast<std::size_t>(c.form.accumulator_registers()) * 128);
  if (c.input == WgmmaInput::chunks) {
    fill_chunks(c, operands);
  } else if (c.form.a_in_registers) {
    fill_a_positions(c, operands);
  } else {
    fill_accumulator_positions(c, operands);
  }
  return operands;
}

char chunk_operand(const WgmmaCase& c) {
  return static_cast<char>(c.seed);
}

std::vector<std::uint32_t> chunks_read(const WgmmaCase& c, const std::vector<std::uint32_t>& d) {
  const bool of_a = chunk_operand(c) == 'A';
  const bool k_major = !(of_a ? c.form.transpose_a : c.form.transpose_b);
  const int mn_count = (of_a ? 64 : c.form.n) / (k_major ? 1 : 8);
  const int k_count = k_major ? 2 : 16;
  constexpr std::uint32_t unset = ~0u - 1;
  constexpr std::uint32_t disagree = ~0u;
  std::vector<std::uint32_t> chunks(static_cast<std::size_t>(mn_count) * k_count, unset);
  for (int i = 0; i < c.form.accumulator_registers(); ++i) {
    for (int thread = 0; thread < 128; ++thread) {
      const emulator::MatrixPosition at = emulator::accumulator_element(thread, i);
      const int mn = of_a ? at.row : at.column;
      const int k = of_a ? at.column : at.row;
      if (k >= 16) continue;
      const int index = k_major ? mn * 2 + k / 8 : mn / 8 * 16 + k;
      const auto number = static_cast<std::uint32_t>(
          std::bit_cast<float>(d[static_cast<std::size_t>(i) * 128 + thread]));
      std::uint32_t& chunk = chunks[index];
      chunk = chunk == unset || chunk == number ? number : disagree;
    }
  }
  return chunks;
}

}  // namespace golden
