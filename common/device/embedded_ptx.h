// The PTX that a program carries.
#pragma once

#include <string_view>

namespace device {

/// The PTX text of this program's kernels: the text that ptxas assembled for the GPU. Empty in a
/// program that was linked without one. The build puts it between the symbols `lesson_ptx` and
/// `lesson_ptx_end`.
std::string_view embedded_ptx();

}  // namespace device
