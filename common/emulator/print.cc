#include "common/emulator/print.h"

#include <cstdio>
#include <ostream>
#include <string_view>

#include "common/emulator/execution.h"
#include "common/emulator/fault.h"
#include "common/emulator/memory.h"
#include "common/emulator/warp.h"

namespace emulator {

namespace {

constexpr std::size_t longest_string = 4096;

bool is_one_of(char c, std::string_view characters) {
  return characters.find(c) != std::string_view::npos;
}

/// One conversion of a format: "%-8.3lld".
struct Directive {
  std::string text;  ///< without length modifiers
  char conversion = 0;
  bool is_long = false;  ///< a 64-bit integer
  int stars = 0;         ///< widths and precisions taken from the arguments
};

/// Takes the directive that starts at format[at], a '%', and moves `at` behind it.
Directive take_directive(std::string_view format, std::size_t& at) {
  Directive d;
  d.text = format[at++];
  while (at < format.size() && is_one_of(format[at], "-+ #0123456789.*")) {
    d.stars += format[at] == '*' ? 1 : 0;
    d.text += format[at++];
  }
  while (at < format.size() && is_one_of(format[at], "hlLzjtq")) {
    d.is_long |= format[at] != 'h' && format[at] != 'L';
    ++at;
  }
  if (at < format.size()) d.conversion = format[at++];
  return d;
}

/// The arguments of one lane, one after the other.
class Arguments {
 public:
  Arguments(Warp& warp, const Op& op, int lane, std::uint64_t address)
      : warp_(warp), op_(op), lane_(lane), address_(address) {}

  template <class T>
  T next() {
    address_ = (address_ + sizeof(T) - 1) / sizeof(T) * sizeof(T);
    T value{};
    if (!read_generic(warp_, lane_, address_, sizeof(T), &value)) {
      fault(warp_, op_, lane_bit(lane_), "out-of-bounds",
            "printf reads an argument at " + hex(address_) + ", where no memory is.");
    }
    address_ += sizeof(T);
    ++count_;
    return value;
  }
  std::string next_string() { return read_string(warp_, op_, lane_, next<std::uint64_t>()); }
  int count() const { return count_; }

 private:
  Warp& warp_;
  const Op& op_;
  int lane_;
  std::uint64_t address_;
  int count_ = 0;
};

template <class T>
std::string format_with(const Directive& d, const std::string& length, const int* stars, T value) {
  const std::string text = d.text + length + d.conversion;
  char buffer[longest_string + 512];
  // The directive was taken apart above: it has one conversion, of the type of `value`.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
#pragma GCC diagnostic ignored "-Wformat-security"
  const int written =
      d.stars == 0 ? std::snprintf(buffer, sizeof buffer, text.c_str(), value)
      : d.stars == 1
          ? std::snprintf(buffer, sizeof buffer, text.c_str(), stars[0], value)
          : std::snprintf(buffer, sizeof buffer, text.c_str(), stars[0], stars[1], value);
#pragma GCC diagnostic pop
  return written < 0 ? std::string() : std::string(buffer);
}

std::string format_directive(const Directive& d, Arguments& arguments) {
  int stars[2] = {};
  for (int i = 0; i < d.stars && i < 2; ++i) stars[i] = arguments.next<int>();
  switch (d.conversion) {
    case '%':
      return "%";
    case 'd':
    case 'i':
      return d.is_long ? format_with(d, "ll", stars, arguments.next<long long>())
                       : format_with(d, "", stars, arguments.next<int>());
    case 'u':
    case 'x':
    case 'X':
    case 'o':
      return d.is_long ? format_with(d, "ll", stars, arguments.next<unsigned long long>())
                       : format_with(d, "", stars, arguments.next<unsigned>());
    case 'c':
      return format_with(d, "", stars, arguments.next<int>());
    case 'e':
    case 'E':
    case 'f':
    case 'F':
    case 'g':
    case 'G':
    case 'a':
    case 'A':
      return format_with(d, "", stars, arguments.next<double>());
    case 'p':
      return format_with(d, "", stars,
                         reinterpret_cast<const void*>(arguments.next<std::uint64_t>()));
    case 's': {
      const std::string text = arguments.next_string();
      return format_with(d, "", stars, text.c_str());
    }
    default:
      // As the device does: what is no directive is printed as it stands.
      return d.text + (d.conversion != 0 ? std::string(1, d.conversion) : std::string());
  }
}

}  // namespace

std::string read_string(Warp& warp, const Op& op, int lane, std::uint64_t address) {
  std::string text;
  for (; text.size() < longest_string; ++address) {
    char c = 0;
    if (!read_generic(warp, lane, address, 1, &c)) {
      fault(warp, op, lane_bit(lane), "out-of-bounds",
            "reads a string at " + hex(address) + ", where no memory is.");
    }
    if (c == 0) break;
    text += c;
  }
  return text;
}

int print_lane(Warp& warp, const Op& op, int lane, std::uint64_t format, std::uint64_t arguments) {
  const std::string text = read_string(warp, op, lane, format);
  Arguments reader(warp, op, lane, arguments);
  std::string printed;
  for (std::size_t at = 0; at < text.size();) {
    if (text[at] == '%') {
      printed += format_directive(take_directive(text, at), reader);
    } else {
      printed += text[at++];
    }
  }
  warp.execution().printf_output() << printed;
  return reader.count();
}

}  // namespace emulator
