#include "common/device/ptx_source.h"

#include "common/device/concat.h"
#include "common/device/embedded_ptx.h"
#include "common/device/errors.h"
#include "common/device/kernel_registry.h"
#include "common/device/ptx_signature.h"

namespace device {

std::string_view PtxSource::text() const {
  return file_ ? std::string_view(file_->text) : embedded_ptx();
}

void PtxSource::check(std::string_view entry, std::span<const Argument> arguments) const {
  try {
    check_arguments(readable_name(entry), entry_parameters(text(), entry), arguments);
  } catch (const Failure& mismatch) {
    refuse(mismatch.what());
  }
}

void PtxSource::refuse(const std::string& why) const {
  if (file_) throw InvalidPtx(concat(file_->path, ": ", why));
  throw Failure(why);
}

}  // namespace device
