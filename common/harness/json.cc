#include "common/harness/json.h"

#include <array>
#include <charconv>
#include <cmath>

namespace harness {
namespace {

template <class Number>
void append_number(std::string& out, Number number) {
  std::array<char, 32> digits;
  const auto [end, error] = std::to_chars(digits.data(), digits.data() + digits.size(), number);
  out.append(digits.data(), end);
}

template <class Real>
void append_real(std::string& out, Real number) {
  if (std::isfinite(number)) {
    append_number(out, number);
  } else {
    out += "null";
  }
}

/// RFC 8259, section 7: quotes, backslashes and control characters are escaped, all else is itself.
void append_string(std::string& out, std::string_view text) {
  static constexpr char hex[] = "0123456789abcdef";
  out += '"';
  for (const char c : text) {
    const auto code = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (code < 0x20) {
      out += "\\u00";
      out += hex[code >> 4];
      out += hex[code & 15];
    } else {
      out += c;
    }
  }
  out += '"';
}

}  // namespace

std::string Json::text() const {
  std::string out;
  append_to(out);
  return out;
}

void Json::append_to(std::string& out) const {
  if (const auto* boolean = std::get_if<bool>(&value_)) {
    out += *boolean ? "true" : "false";
  } else if (const auto* integer = std::get_if<std::int64_t>(&value_)) {
    append_number(out, *integer);
  } else if (const auto* natural = std::get_if<std::uint64_t>(&value_)) {
    append_number(out, *natural);
  } else if (const auto* single = std::get_if<float>(&value_)) {
    append_real(out, *single);
  } else if (const auto* real = std::get_if<double>(&value_)) {
    append_real(out, *real);
  } else if (const auto* string = std::get_if<std::string>(&value_)) {
    append_string(out, *string);
  } else if (const auto* array = std::get_if<Array>(&value_)) {
    out += '[';
    const char* separator = "";
    for (const Json& element : *array) {
      out += std::exchange(separator, ",");
      element.append_to(out);
    }
    out += ']';
  } else if (const auto* object = std::get_if<Object>(&value_)) {
    out += '{';
    const char* separator = "";
    for (const auto& [key, value] : *object) {
      out += std::exchange(separator, ",");
      append_string(out, key);
      out += ':';
      value.append_to(out);
    }
    out += '}';
  } else {
    out += "null";
  }
}

}  // namespace harness
