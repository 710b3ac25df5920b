#include "tests/golden/operation_cases.h"

#include <algorithm>
#include <bit>
#include <functional>

#include "tests/golden/hash.h"
#include "tests/golden/operations.h"

namespace golden {
namespace {

constexpr std::uint32_t sign = 0x8000'0000;

/// Where f32 conversions go wrong: zeros, subnormals, infinities, NaN; the limits of the integer
/// types and of the small formats; the points halfway between two of their numbers.
std::vector<std::uint32_t> edge_floats() {
  std::vector<std::uint32_t> edges{0,           1,           0x0000'8000, 0x0040'0000, 0x007F'FFFF,
                                   0x0080'0000, 0x7F7F'FFFF, 0x7F80'0000, 0x7F80'0001, 0x7FC0'0000,
                                   0x7FC1'2345, 0x7FFF'FFFF, 0x7F7F'8000, 0x7F7F'7FFF, 0x3F81'8000,
                                   0x4048'F5C3, 0x3F80'8000, 0x3F80'8001, 0x3F80'7FFF, 0x3F80'1000,
                                   0x3F80'1001, 0x3F80'3000, 0x3F80'0FFF, 0x7F7F'F000, 0x7F7F'EFFF};
  // 0.5 to 2^65, and the numbers next to their halves, quarters and so on.
  for (std::uint32_t exponent = 126; exponent < 193; ++exponent) {
    for (std::uint32_t mantissa : {0u, 1u, 0x40'0000u, 0x60'0000u, 0x7F'FFFFu}) {
      edges.push_back(exponent << 23 | mantissa);
    }
  }
  // All exponents around fp8's and f16's, with mantissas that end halfway.
  for (std::uint32_t exponent = 98; exponent < 145; ++exponent) {
    for (std::uint32_t step = 0; step < 32; ++step) {
      edges.push_back(exponent << 23 | step << 18);
      edges.push_back((exponent << 23 | step << 18) + 1);
      edges.push_back((exponent << 23 | step << 18) + 0x1000);
    }
  }
  const std::size_t positive = edges.size();
  for (std::size_t i = 0; i < positive; ++i) edges.push_back(edges[i] | sign);
  return edges;
}

std::vector<std::uint32_t> generated(std::uint32_t count,
                                     const std::function<std::uint32_t(std::uint32_t)>& word) {
  std::vector<std::uint32_t> words;
  for (std::uint32_t i = 0; i < count; ++i) words.push_back(word(i));
  return words;
}

std::vector<std::uint32_t> hashed_words(std::uint32_t seed, std::size_t count) {
  return generated(static_cast<std::uint32_t>(count),
                   [seed](std::uint32_t i) { return hashed(seed, i); });
}

OperationWords floats() {
  std::vector<std::uint32_t> first = edge_floats();
  const std::vector<std::uint32_t> random = hashed_words(1, 100'000);
  first.insert(first.end(), random.begin(), random.end());
  std::vector<std::uint32_t> second = first;
  std::rotate(second.begin(), second.begin() + 1, second.end());
  return {first, second, hashed_words(2, first.size())};
}

/// A float near `word`: the same sign and exponent, or the next ones.
std::uint32_t close_to(std::uint32_t word, std::uint32_t random) {
  return (word & 0xFF00'0000) | (random & 0x80FF'FFFF);
}

OperationWords triples() {
  constexpr std::uint32_t count = 32'768;
  OperationWords words;
  words[0] = hashed_words(3, count);
  words[1] = hashed_words(4, count);
  words[2] = hashed_words(5, count);
  for (std::uint32_t i = 0; i < count; ++i) {
    std::uint32_t& a = words[0][i];
    std::uint32_t& b = words[1][i];
    std::uint32_t& c = words[2][i];
    switch (i % 8) {
      case 0:
        b = close_to(a, b);
        break;
      case 1:
        b = a ^ sign;
        break;
      case 2:  // products near 1, and a summand that cancels them
        a = (a & 0x807F'FFFF) | 0x3F80'0000;
        b = (b & 0x807F'FFFF) | 0x3F80'0000;
        c = close_to(0xBF80'0000, c);
        break;
      case 3:  // subnormals
        a &= 0x80FF'FFFF;
        b &= 0x80FF'FFFF;
        break;
      case 4:  // products near the subnormals
        a = (a & 0x83FF'FFFF) | 0x2000'0000;
        b = (b & 0x83FF'FFFF) | 0x1C00'0000;
        c &= 0x81FF'FFFF;
        break;
      default:
        break;
    }
  }
  // All pairs of special values.
  constexpr std::array<std::uint32_t, 8> special{
      0, 0x8000'0000, 0x3F80'0000, 0xBF80'0000, 0x7F80'0000, 0xFF80'0000, 0x7FC1'2345, 0x0000'0001};
  for (std::uint32_t i = 0; i < 512; ++i) {
    words[0][i] = special[i % 8];
    words[1][i] = special[i / 8 % 8];
    words[2][i] = special[i / 64];
  }
  return words;
}

OperationWords half_triples() {
  constexpr std::uint32_t count = 32'768;
  OperationWords words;
  for (std::uint32_t operand = 0; operand < 3; ++operand) {
    words[operand] = generated(count, [operand](std::uint32_t i) {
      const std::uint32_t random = hashed(6 + operand, i) & 0xFFFF;
      // Half of them of moderate size in f16 and in bf16, so that sums are not one of the terms.
      return i % 2 == 0 ? random : (random & 0x87FF) | 0x3800;
    });
  }
  constexpr std::array<std::uint32_t, 8> special{0,      0x8000, 0x3C00, 0xBF80,
                                                 0x7C00, 0xFF80, 0x7E01, 0x0001};
  for (std::uint32_t i = 0; i < 512; ++i) {
    words[0][i] = special[i % 8];
    words[1][i] = special[i / 8 % 8];
    words[2][i] = special[i / 64];
  }
  return words;
}

/// `steps` floats from -range to range.
void append_range(std::vector<std::uint32_t>& words, float range, int steps) {
  for (int i = 0; i < steps; ++i) {
    const float at = static_cast<float>(2 * i - steps + 1) / static_cast<float>(steps);
    words.push_back(std::bit_cast<std::uint32_t>(range * at));
  }
}

std::vector<std::uint32_t> spread(float range) {
  std::vector<std::uint32_t> words = hashed_words(9, 4'000);
  append_range(words, range, 16'000);
  return words;
}

std::vector<std::uint32_t> spread_angles() {
  constexpr float pi = 3.14159265f;
  std::vector<std::uint32_t> words = hashed_words(9, 4'000);
  append_range(words, 2 * pi, 12'000);
  append_range(words, 100 * pi, 4'000);
  return words;
}

/// Special values, subnormals and what is next to them, then every exponent.
std::vector<std::uint32_t> small_floats() {
  std::vector<std::uint32_t> words{0, sign, 0x7F80'0000, 0xFF80'0000, 0x7FC0'0000, 0xFFFF'FFFF};
  for (std::uint32_t i = 0; words.size() < 2'048; ++i) {
    words.push_back(hashed(10, i) & 0x80FF'FFFF);
  }
  for (std::uint32_t i = 0; words.size() < 4'096; ++i) words.push_back(hashed(11, i));
  return words;
}

/// One input, and two that the operations don't take.
OperationWords unary(std::vector<std::uint32_t> first) {
  const std::size_t count = first.size();
  return {std::move(first), hashed_words(12, count), hashed_words(13, count)};
}

}  // namespace

const std::vector<OperationCase>& operation_cases() {
  static const std::vector<OperationCase> cases{
#define GOLDEN_CASE(name, inputs, body) {name, OperationInputs::inputs},
      GOLDEN_OPERATIONS(GOLDEN_CASE)
#undef GOLDEN_CASE
  };
  return cases;
}

bool is_approximation(const OperationCase& c) {
  return c.name.find(".approx") != std::string::npos || c.name.find(".full") != std::string::npos;
}

OperationWords inputs(OperationInputs inputs) {
  switch (inputs) {
    case OperationInputs::all_16_bits:
      return unary(generated(0x1'0000, [](std::uint32_t i) { return i; }));
    case OperationInputs::pairs_of_16_bits:
      return unary(generated(0x1'0000, [](std::uint32_t i) {
        // Times an odd number: every pattern once.
        return (i * 0x9E37 + 0x79B9) << 16 | i;
      }));
    case OperationInputs::floats:
      return floats();
    case OperationInputs::words:
      return unary(generated(20'000, [](std::uint32_t i) {
        const std::uint32_t magnitude = hashed(14, i) >> (i % 32);
        return i / 32 % 2 == 0 ? magnitude : 0 - magnitude;
      }));
    case OperationInputs::triples:
      return triples();
    case OperationInputs::half_triples:
      return half_triples();
    case OperationInputs::spread_4:
      return unary(spread(4));
    case OperationInputs::spread_10:
      return unary(spread(10));
    case OperationInputs::spread_150:
      return unary(spread(150));
    case OperationInputs::spread_angles:
      return unary(spread_angles());
    case OperationInputs::small:
      return unary(small_floats());
    case OperationInputs::spread_halves:
      return unary(generated(0x2000, [](std::uint32_t i) {
        const std::uint32_t random = hashed(15, i);
        return (8 * i + 4 + random % 4) << 16 | (8 * i + random / 4 % 4);
      }));
  }
  return {};
}

}  // namespace golden
