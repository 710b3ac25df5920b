// What can go wrong on a device. Every message is a sentence: what was wrong, where, what to do.
#pragma once

#include <stdexcept>

namespace device {

/// The device failed: an API call, a launch, an allocation. Exit status 3.
struct Failure : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// There is no device to run on: no driver, an old driver, no visible GPU, a GPU that is not
/// sm_90. Exit status 3.
struct Unavailable : Failure {
  using Failure::Failure;
};

/// Launched work did not finish within the time limit. The device can't be used any more: the
/// process must end without waiting for it. Exit status 3.
struct Hang : Failure {
  using Failure::Failure;
};

/// A tensor map that breaks a rule of the hardware; the message names the operand, the field, the
/// value and the rule. Exit status 2: the user's sizes or pitches asked for it.
struct InvalidTensorMap : std::invalid_argument {
  using std::invalid_argument::invalid_argument;
};

/// PTX of the user's (Request::ptx) that can't be run; the message names the file. Exit status 2.
struct InvalidPtx : std::invalid_argument {
  using std::invalid_argument::invalid_argument;
};

}  // namespace device
