#include "common/harness/workload.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numbers>
#include <string>

#include "common/device/concat.h"
#include "common/harness/guarded_matrix.h"
#include "common/harness/parallel.h"

namespace harness {
namespace {

using device::concat;
using device::counted;

constexpr std::int64_t element_bytes = sizeof(__nv_bfloat16);

/// From `extra` on: matrices beside those of a Workload.
enum class Operand { a, b, c, d, extra };

/// One matrix as the user sees it: `columns` is the contiguous dimension.
struct Shape {
  Operand operand;
  std::int64_t rows, columns, pitch;
  std::int64_t elements() const { return rows * pitch; }
  std::int64_t bytes() const { return elements() * element_bytes; }
};

char letter(Operand operand) {
  return "ABCD"[static_cast<int>(operand)];
}

std::string flag(Operand operand) {
  return concat("--ld", "abcd"[static_cast<int>(operand)]);
}

/// "65 elements (130 bytes)"
std::string size_in_words(std::int64_t elements) {
  return concat(counted(elements, "element"), " (", counted(elements * element_bytes, "byte"), ")");
}

void check_pitch(Operand operand, std::int64_t pitch, std::int64_t columns, int multiple) {
  // The limit of a tensor map, and far from where a size in bytes would overflow.
  constexpr std::int64_t limit = (std::int64_t{1} << 40) / element_bytes;
  const std::string given = concat(flag(operand), " ", pitch, ": ");
  if (pitch < columns) {
    throw UsageError(concat(given, "a row of ", letter(operand), " has ",
                            counted(columns, "element"), ", and the pitch must hold it."));
  }
  if (pitch < 1 || pitch >= limit) {
    throw UsageError(
        concat(given, "the pitch must be at least 1 and less than ", size_in_words(limit), "."));
  }
  if (pitch % multiple != 0) {
    throw UsageError(concat(given, "the rows of ", letter(operand), " would be ",
                            size_in_words(pitch), " apart, and this lesson needs a multiple of ",
                            size_in_words(multiple), ". Take ", flag(operand), " ",
                            (pitch / multiple + 1) * multiple, "."));
  }
}

Shape checked_shape(Operand operand, std::int64_t rows, std::int64_t columns,
                    const std::optional<std::int64_t>& given, int multiple) {
  if (given) check_pitch(operand, *given, columns, multiple);
  // A pitch of 0 would be no valid leading dimension, not even for an empty row.
  const std::int64_t least = std::max<std::int64_t>(columns, 1);
  const std::int64_t pitch = given.value_or((least + multiple - 1) / multiple * multiple);
  constexpr std::int64_t most_elements = std::int64_t{1} << 60;
  if (rows > most_elements / pitch) {
    throw UsageError(concat(letter(operand), " would have ", counted(rows, "row"), " of ",
                            size_in_words(pitch), ", more than any memory holds."));
  }
  return {operand, rows, columns, pitch};
}

/// Device memory for a matrix between two guard bands, all of it poisoned.
device::Buffer poisoned(device::Device& device, const Shape& shape) {
  const std::size_t bytes = static_cast<std::size_t>(shape.bytes() + 2 * guard_bytes);
  device::Buffer buffer(device, bytes);
  device.fill(buffer.address(), poison_byte, bytes);
  return buffer;
}

/// Where the matrix itself starts.
__nv_bfloat16* matrix(const device::Buffer& buffer) {
  return reinterpret_cast<__nv_bfloat16*>(static_cast<char*>(buffer.address()) + guard_bytes);
}

/// The finalizer of splitmix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators,
/// OOPSLA 2014): every input bit flips every output bit with a probability of about one half.
std::uint64_t mix(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9U;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBU;
  return x ^ (x >> 31);
}

/// 64 random bits for an element: splitmix64's output number (row, column), counted from a start
/// that depends on seed and operand.
std::uint64_t random_bits(std::uint64_t start, std::int64_t row, std::int64_t column) {
  constexpr std::uint64_t step = 0x9E3779B97F4A7C15U;
  const std::uint64_t counter =
      (static_cast<std::uint64_t>(row) << 32) | static_cast<std::uint64_t>(column);
  return mix(start + (counter + 1) * step);
}

/// Box-Muller: a radius from the upper 32 bits, by way of u in (0, 1], an angle from the lower.
float normal(std::uint64_t bits) {
  const float u = (static_cast<float>(bits >> 32) + 1) * 0x1p-32F;
  const float angle = static_cast<float>(bits & 0xFFFFFFFFU) * 0x1p-32F;
  return std::sqrt(-2 * std::log(u)) * std::cos(2 * std::numbers::pi_v<float> * angle);
}

/// Uniform on the multiples of 2^-23 in [-1, 1).
float uniform(std::uint64_t bits) {
  return static_cast<float>(bits >> 40) * 0x1p-23F - 1;
}

/// What `ones` hold in a problem with this number.
float one(Operand operand, int number) {
  return operand == Operand::a ? static_cast<float>(number % 127 + 1) : 1;
}

float index(Operand operand, std::int64_t row, std::int64_t column) {
  const std::int64_t column_step = 3 + 2 * static_cast<std::int64_t>(operand);
  return static_cast<float>((row + column_step * column) % 17 - 8);
}

/// Draws the elements of a row-major matrix; its padding holds NaN.
std::vector<__nv_bfloat16> draw(const Shape& shape, Init init, std::uint64_t seed, int number,
                                const Transform& transform) {
  std::vector<__nv_bfloat16> elements(static_cast<std::size_t>(shape.elements()),
                                      __ushort_as_bfloat16(0xFFFF));
  constexpr std::uint64_t operands = 4;
  const std::uint64_t start = mix(mix(seed) + static_cast<std::uint64_t>(shape.operand) +
                                  operands * static_cast<std::uint64_t>(number));
  const auto element = [&](std::int64_t row, std::int64_t column) -> float {
    switch (init) {
      case Init::normal:
        return normal(random_bits(start, row, column));
      case Init::uniform:
        return uniform(random_bits(start, row, column));
      case Init::ones:
        return one(shape.operand, number);
      case Init::zeros:
        return 0;
      case Init::index:
        return index(shape.operand, row + number, column);
    }
    return 0;
  };
  parallel_for(shape.rows, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t row = first; row < last; ++row) {
      __nv_bfloat16* const to = elements.data() + row * shape.pitch;
      for (std::int64_t column = 0; column < shape.columns; ++column) {
        const float drawn = element(row, column);
        to[column] = __float2bfloat16_rn(
            transform ? transform(letter(shape.operand), row, column, drawn) : drawn);
      }
    }
  });
  return elements;
}

}  // namespace

Workload::Workload(device::Device& device, const Options& options, int pitch_multiple, int number,
                   const Workload* same_b, const Transform& transform)
    : device_(device), b_(same_b != nullptr ? same_b->b_ : std::make_shared<SharedMatrix>()) {
  const Shape a = checked_shape(Operand::a, options.m, options.k, options.lda, pitch_multiple);
  const Shape b = checked_shape(Operand::b, options.n, options.k, options.ldb, pitch_multiple);
  const Shape c = checked_shape(Operand::c, options.m, options.n, options.ldc, pitch_multiple);
  const Shape d = checked_shape(Operand::d, options.m, options.n, options.ldd, pitch_multiple);

  // The device comes first: what is too large for it is refused before the host has drawn it.
  device_a_ = poisoned(device, a);
  if (same_b == nullptr) b_->device = poisoned(device, b);
  device_c_ = poisoned(device, c);
  device_d_ = poisoned(device, d);
  const bool reads_inputs = options.alpha != 0;
  problem_ = {.m = options.m,
              .n = options.n,
              .k = reads_inputs ? options.k : 0,
              .alpha = options.alpha,
              .beta = options.beta,
              .a = matrix(device_a_),
              .b = matrix(b_->device),
              .c = matrix(device_c_),
              .d = matrix(device_d_),
              .lda = a.pitch,
              .ldb = b.pitch,
              .ldc = c.pitch,
              .ldd = d.pitch};

  const auto fill = [&](std::vector<__nv_bfloat16>& host, const device::Buffer& buffer,
                        const Shape& shape) {
    host = draw(shape, options.init, options.seed, number, transform);
    device.copy_to_device(matrix(buffer), host.data(), static_cast<std::size_t>(shape.bytes()));
  };
  if (reads_inputs) {
    fill(a_, device_a_, a);
    if (same_b == nullptr) fill(b_->host, b_->device, b);
  }
  if (options.beta != 0) fill(c_, device_c_, c);
}

std::vector<__nv_bfloat16> draw_extra(int number, std::int64_t rows, std::int64_t columns,
                                      std::int64_t pitch, Init init, std::uint64_t seed) {
  const auto operand = static_cast<Operand>(static_cast<int>(Operand::extra) + number);
  const Shape shape{.operand = operand, .rows = rows, .columns = columns, .pitch = pitch};
  return draw(shape, init, seed, 0, {});
}

void Workload::poison_output() {
  device_.fill(device_d_.address(), poison_byte, device_d_.bytes());
}

void Workload::copy_output_rows(std::int64_t first, std::int64_t count,
                                std::span<__nv_bfloat16> rows) const {
  device_.copy_to_host(rows.data(), problem_.d + first * problem_.ldd,
                       static_cast<std::size_t>(count * problem_.ldd * element_bytes));
}

std::int64_t Workload::damaged_guard_bytes() const {
  return harness::damaged_guard_bytes(device_, device_d_);
}

}  // namespace harness
