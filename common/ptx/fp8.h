// The 8-bit floats.
#pragma once

namespace ptx {

/// e4m3 has 4 bits of exponent and 3 behind the leading one; no infinity, and NaN follows on 448.
/// e5m2 has 5 and 2, infinities, and ends at 57344. PTX ISA 5.2.3 (alternate floating-point
/// formats)
enum class Fp8 { e4m3, e5m2 };

}  // namespace ptx
