// Small kernels in PTX, each right as it stands and broken by one edit.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ptx_edits {

/// A kernel for lab::kernel_text, with parameters `in` and `out`, 1 KB of device memory each, and
/// `map`, a tensor map of 8 rows of 16 32-bit elements at `in`: as large as its box.
struct Kernel {
  std::string body;
  std::uint32_t threads = 64;
  std::string declarations = {};
};

/// An edit that breaks the kernel, and what must be said of it under every schedule.
struct Edit {
  std::string from;  ///< a part of the body, there once
  std::string to;
  const char* rule;
  const char* names;      ///< what the sentence must name
  const char* at;         ///< how the opcode of the instruction that it points to must begin
  const char* also = "";  ///< another rule that may speak
};

/// Launches the kernel and its broken variants under several schedules, with the strict checker:
/// nothing may be said of the kernel, and of each variant what its edit names, and nothing else.
void check(const Kernel& kernel, const std::vector<Edit>& edits);

}  // namespace ptx_edits
