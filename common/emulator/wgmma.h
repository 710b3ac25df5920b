// wgmma.mma_async arithmetic: D = A B + D for a warpgroup, all at once. PTX ISA 9.7.15.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/emulator/descriptor.h"

namespace emulator {

enum class MatrixType : std::uint8_t { f16, bf16, tf32, e4m3, e5m2, s8, u8 };
enum class AccumulatorType : std::uint8_t { f32, f16, s32 };

/// Bits of one element of A or B in memory: 8, 16 or 32.
int element_bits(MatrixType type);

/// One form of the instruction: what its opcode, its immediates and its operand kinds say.
struct WgmmaForm {
  MatrixType a = MatrixType::bf16;
  MatrixType b = MatrixType::bf16;
  AccumulatorType d = AccumulatorType::f32;
  int n = 8;
  bool a_in_registers = false;
  bool negate_a = false;     ///< imm-scale-a is -1
  bool negate_b = false;     ///< imm-scale-b is -1
  bool transpose_a = false;  ///< imm-trans-a is 1: A in shared memory is MN-major
  bool transpose_b = false;  ///< imm-trans-b is 1: B is MN-major
  bool satfinite = false;    ///< s32 only: clamps instead of wrapping

  /// Elements of K: 32 bytes' worth, so 8 (tf32), 16 or 32.
  int k() const { return 256 / element_bits(a); }
  /// Accumulator registers a thread: n / 2, or n / 4 for f16.
  int accumulator_registers() const { return d == AccumulatorType::f16 ? n / 4 : n / 2; }
  /// Registers a thread that hold A, if it is in registers: always 4.
  static constexpr int a_registers = 4;
};

/// Why the ISA has no such form, as a sentence; nothing if it has (the table in 9.7.15.5.2).
std::optional<std::string> refusal(const WgmmaForm& form);

/// For each of the four warps an array of pointers, one a register; each points to 32 lanes.
using WarpgroupRegisters = std::array<std::uint32_t* const*, 4>;
using ConstWarpgroupRegisters = std::array<const std::uint32_t* const*, 4>;

/// A CTA's shared memory: `bytes[0]` has the shared-window address `base`, a multiple of 1024.
struct SharedWindow {
  std::span<const std::byte> bytes;
  std::uint32_t base;
};

/// An operand's descriptor points outside the CTA's shared memory.
struct OutsideShared {
  char operand;           ///< 'A' or 'B'
  std::uint32_t address;  ///< of the first 16-byte chunk outside, in the shared window
};

/// Runs a legal form (see `refusal`). D is untouched if an operand lies outside shared memory.
///
/// `scale_d` false: D = A B. A must be read from shared memory through `descriptor_a`, or with
/// form.a_in_registers from `a_registers` (fragments.h gives both register layouts).
///
/// Products are exact. For f16, bf16 and tf32 the sums are fp32, in order of k, starting from D.
/// The hardware aligns the products of an instruction to the largest one and truncates, and keeps
/// about as many bits as fp32; so it agrees bit for bit only where no sum is inexact.
///
/// For e4m3 and e5m2 it keeps far fewer, and the emulator does as an H200 does. The 32 products and
/// D are aligned to the largest exponent e among them, that of a product being the sum of its
/// factors' exponents. Each is truncated towards zero to a multiple of 2^(e - 13), and these are
/// added exactly. For an f32 accumulator the sum is then truncated to 14 significant bits. All
/// 12288 sums in tests/golden agree bit for bit. (PTX ISA 9.7.15.5.2 only says: below single
/// precision.)
///
/// f16 accumulators are rounded to f16 once.
std::optional<OutsideShared> wgmma(const WgmmaForm& form, const WarpgroupRegisters& d,
                                   const ConstWarpgroupRegisters& a_registers,
                                   std::uint64_t descriptor_a, std::uint64_t descriptor_b,
                                   bool scale_d, const SharedWindow& shared);

struct ByteRange {
  std::uint32_t address;  ///< in the shared window
  std::uint32_t bytes;
  bool operator==(const ByteRange&) const = default;
};

/// Replaces `ranges` by what an operand ('A' or 'B') covers in shared memory: in order of address,
/// merged, whether inside the CTA's memory or not.
void operand_ranges(const WgmmaForm& form, char operand, std::uint64_t descriptor,
                    std::vector<ByteRange>& ranges);

}  // namespace emulator
