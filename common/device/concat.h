// Sentences for error messages.
#pragma once

#include <sstream>
#include <string>

namespace device {

/// The parts one after another, each as operator<< writes it.
template <class... Parts>
std::string concat(const Parts&... parts) {
  std::ostringstream stream;
  (stream << ... << parts);
  return stream.str();
}

/// "1 byte", "2 bytes"
template <class Number>
std::string counted(Number number, const char* noun) {
  return concat(number, " ", noun, number == 1 ? "" : "s");
}

}  // namespace device
