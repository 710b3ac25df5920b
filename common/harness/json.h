// A small JSON writer: a value that is built once and printed on one line.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace harness {

/// A JSON value. Objects keep their keys in the order in which they were given.
class Json {
 public:
  using Array = std::vector<Json>;
  using Object = std::vector<std::pair<std::string, Json>>;

  Json() = default;  ///< null
  Json(std::nullptr_t) {}
  Json(std::same_as<bool> auto value) : value_(value) {}
  Json(std::signed_integral auto value) : value_(std::int64_t{value}) {}
  Json(std::unsigned_integral auto value) requires(!std::same_as<decltype(value), bool>)
      : value_(std::uint64_t{value}) {}
  Json(float value) : value_(value) {}
  Json(double value) : value_(value) {}
  Json(std::string value) : value_(std::move(value)) {}
  Json(std::string_view value) : value_(std::string(value)) {}
  Json(const char* value) : value_(std::string(value)) {}
  Json(Array value) : value_(std::move(value)) {}
  Json(Object value) : value_(std::move(value)) {}
  /// null when there is no value.
  template <class T>
  Json(const std::optional<T>& value) {
    if (value) *this = Json(*value);
  }

  /// One line without spaces. Numbers have the fewest digits that read back as the same number;
  /// NaN and infinities become null, because JSON has none. Strings must be UTF-8.
  std::string text() const;

 private:
  void append_to(std::string& out) const;

  std::variant<std::nullptr_t, bool, std::int64_t, std::uint64_t, float, double, std::string, Array,
               Object>
      value_ = nullptr;
};

}  // namespace harness
