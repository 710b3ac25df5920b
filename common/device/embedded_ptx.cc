#include "common/device/embedded_ptx.h"

// Weak, so that programs without a kernel link: the addresses are then null.
extern "C" {
extern const char lesson_ptx[] __attribute__((weak));
extern const char lesson_ptx_end[] __attribute__((weak));
}

namespace device {

std::string_view embedded_ptx() {
  if (lesson_ptx == nullptr) return {};
  const std::string_view text(lesson_ptx, lesson_ptx_end - lesson_ptx);
  return text.substr(0, text.find('\0'));
}

}  // namespace device
