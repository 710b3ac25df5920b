// The words of what a call throws.
#pragma once

#include <string>

namespace tests {

/// The message of the `Error` that `call` throws; empty if it throws nothing.
template <class Error, class Call>
std::string message_of(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

}  // namespace tests
