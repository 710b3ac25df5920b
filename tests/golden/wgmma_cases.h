// The wgmma cases of the golden files and their inputs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/emulator/wgmma.h"

namespace golden {

/// Shared memory of a case: A lies in the first `b_offset` bytes, B behind.
inline constexpr std::uint32_t image_bytes = 64 * 1024;
inline constexpr std::uint32_t b_offset = 16 * 1024;

/// What the operands hold, and so how the result can be compared.
enum class WgmmaInput {
  exact,      ///< small integers: every sum is exact, the results must agree bit for bit
  near,       ///< floats of about one magnitude
  wide,       ///< floats of 16 binades
  positions,  ///< the result names what went where, see wgmma_cases.cc
  chunks,     ///< the result names the 16-byte chunks that an operand was read from
};

struct WgmmaCase {
  std::string name;
  int form_index = 0;  ///< in GOLDEN_WGMMA_FORMS
  emulator::WgmmaForm form;
  std::uint64_t descriptor_a = 0;  ///< addresses count from the start of the image
  std::uint64_t descriptor_b = 0;
  bool scale_d = true;
  WgmmaInput input = WgmmaInput::exact;
  std::uint32_t seed = 0;
};

/// Register arrays are [register][thread of the warpgroup].
struct WgmmaOperands {
  std::vector<std::byte> image;
  std::vector<std::uint32_t> a;  ///< 4 x 128
  std::vector<std::uint32_t> d;  ///< accumulator_registers() x 128
};

std::vector<WgmmaCase> wgmma_cases();
WgmmaOperands operands(const WgmmaCase& c);

/// The descriptor of a dense tile of `rows` of M or N, or one with `gap` bytes between its groups.
std::uint64_t tile_descriptor(std::uint32_t offset, emulator::SwizzleMode swizzle,
                              emulator::Major major, std::uint32_t rows, std::uint32_t element_bits,
                              std::uint32_t gap = 0);

/// A `chunks` case reads one operand from an image whose chunks are numbered; the result is one
/// word a chunk, in the order of emulator::chunk_address: its number, or ~0 where the words that
/// come from one chunk disagree. `operand` is 'A' or 'B'.
char chunk_operand(const WgmmaCase& c);
std::vector<std::uint32_t> chunks_read(const WgmmaCase& c, const std::vector<std::uint32_t>& d);

}  // namespace golden
