#include "tools/ptxrun_arguments.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <random>
#include <sstream>
#include <type_traits>
#include <utility>

#include "common/harness/options.h"

namespace ptxrun {

using harness::UsageError;

/// How elements of a type are kept and shown. A long double holds all values of all of them.
struct ElementFormat {
  const char* name;
  std::size_t bytes;
  void (*store)(long double value, std::byte* to);
  std::string (*text)(const std::byte* from);
  std::optional<device::ElementType> tensor;  ///< what a tensor map calls it
};

namespace {

constexpr std::uint64_t most_elements = std::uint64_t{1} << 32;

template <class T>
void store(long double value, std::byte* to) {
  if constexpr (std::is_integral_v<T>) {
    if (value != std::trunc(value) || value < std::numeric_limits<T>::min() ||
        value > std::numeric_limits<T>::max()) {
      throw UsageError(std::to_string(value) + " is not in the range of the integer type.");
    }
  }
  const T element = [&] {
    if constexpr (std::is_arithmetic_v<T>) return static_cast<T>(value);
    return T(static_cast<float>(value));
  }();
  std::memcpy(to, &element, sizeof(element));
}

template <class T>
std::string text(const std::byte* from) {
  T element;
  std::memcpy(&element, from, sizeof(element));
  std::ostringstream out;
  if constexpr (std::is_arithmetic_v<T>) {
    out << +element;
  } else {
    out << static_cast<float>(element);
  }
  return out.str();
}

template <class T>
constexpr ElementFormat format(const char* name, std::optional<device::ElementType> tensor = {}) {
  return {name, sizeof(T), store<T>, text<T>, tensor};
}

const std::array<ElementFormat, 12> formats{
    format<std::uint8_t>("u8", device::ElementType::u8),
    format<std::int8_t>("s8"),
    format<std::uint16_t>("u16"),
    format<std::int16_t>("s16"),
    format<std::uint32_t>("u32", device::ElementType::u32),
    format<std::int32_t>("s32", device::ElementType::s32),
    format<std::uint64_t>("u64"),
    format<std::int64_t>("s64"),
    format<__half>("f16", device::ElementType::f16),
    format<__nv_bfloat16>("bf16", device::ElementType::bf16),
    format<float>("f32", device::ElementType::f32),
    format<double>("f64")};

const ElementFormat& find_format(const std::string& name) {
  const auto found = std::find_if(formats.begin(), formats.end(),
                                  [&](const ElementFormat& f) { return f.name == name; });
  if (found == formats.end()) throw UsageError("there is no element type '" + name + "'.");
  return *found;
}

/// Cuts `text` at the first `separator`; the second part is empty where there is none.
std::pair<std::string, std::string> cut(const std::string& text, char separator) {
  const std::size_t at = text.find(separator);
  if (at == std::string::npos) return {text, ""};
  return {text.substr(0, at), text.substr(at + 1)};
}

long double number(const std::string& word) {
  long double value = 0;
  const char* const end = word.data() + word.size();
  const auto [rest, error] = std::from_chars(word.data(), end, value);
  if (error != std::errc() || rest != end) throw UsageError("'" + word + "' is no number.");
  return value;
}

template <class T>
std::vector<std::byte> bytes_of(const T& value) {
  std::vector<std::byte> bytes(sizeof(value));
  std::memcpy(bytes.data(), &value, sizeof(value));
  return bytes;
}

/// "128x64", contiguous dimension last, turned round: 64, 128.
std::vector<std::uint64_t> extents(const std::string& text) {
  std::vector<std::uint64_t> extents;
  for (const std::string& part : split(text, 'x')) {
    extents.insert(extents.begin(), whole_number("an extent", part, most_elements));
  }
  if (extents.empty() || extents.size() > 5) throw UsageError("tensors have 1 to 5 dimensions.");
  return extents;
}

/// Memory whose elements are zeros, or as `fill` says.
Argument with_memory(device::Device& device, const ElementFormat& format, std::uint64_t elements,
                     const std::string& fill, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  const std::size_t period = format.bytes < 4 ? 128 : most_elements;
  const bool is_constant = fill != "normal" && fill != "index";
  const long double constant = is_constant && !fill.empty() ? number(fill) : 0;
  std::vector<std::byte> host(elements * format.bytes);
  for (std::size_t i = 0; i < elements; ++i) {
    const long double value = is_constant        ? constant
                              : fill == "normal" ? normal(random)
                                                 : static_cast<long double>(i % period);
    format.store(value, host.data() + i * format.bytes);
  }
  device::Buffer memory(device, host.size());
  device.copy_to_device(memory.address(), host.data(), host.size());
  return {bytes_of(memory.address()), std::move(memory), elements, &format};
}

Argument tensor_map(device::Device& device, const std::string& text, std::uint64_t seed) {
  const std::vector<std::string> parts = split(text, ',');
  const auto [type, tensor] = cut(parts.empty() ? "" : parts[0], ':');
  const auto [shape, fill] = cut(tensor, '=');
  const ElementFormat& format = find_format(type);
  if (!format.tensor) throw UsageError("there are no tensor maps of " + type + ".");

  const std::vector<std::uint64_t> extent = extents(shape);
  std::vector<std::uint64_t> box = extent;
  std::string swizzle = "none";
  for (std::size_t i = 1; i < parts.size(); ++i) {
    const auto [key, value] = cut(parts[i], '=');
    if (key == "box") {
      box = extents(value);
    } else if (key == "swizzle") {
      swizzle = value;
    } else {
      throw UsageError("a map has box and swizzle, not '" + key + "'.");
    }
  }
  if (box.size() != extent.size()) throw UsageError("box and tensor differ in dimensions.");
  const std::array<const char*, 4> swizzles{"none", "32", "64", "128"};
  const auto mode = std::find(swizzles.begin(), swizzles.end(), swizzle);
  if (mode == swizzles.end()) throw UsageError("swizzle is none, 32, 64 or 128.");

  device::TensorMap map{.operand = "an argument", .type = *format.tensor};
  map.rank = static_cast<int>(extent.size());
  map.swizzle = static_cast<device::Swizzle>(mode - swizzles.begin());
  std::uint64_t elements = 1;
  for (std::size_t i = 0; i < extent.size(); ++i) {
    if (extent[i] > most_elements / std::max<std::uint64_t>(elements, 1)) {
      throw UsageError("the tensor has more than 2^32 elements.");
    }
    elements *= extent[i];
    map.extent[i] = extent[i];
    map.box[i] = static_cast<std::uint32_t>(std::min<std::uint64_t>(box[i], UINT32_MAX));
    if (i + 1 < extent.size()) map.pitch[i] = elements * format.bytes;
  }
  Argument argument = with_memory(device, format, elements, fill, seed);
  map.address = argument.memory.address();
  argument.value = bytes_of(device.encode(map));
  return argument;
}

}  // namespace

std::uint64_t whole_number(const std::string& what, const std::string& text, std::uint64_t high) {
  std::uint64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || rest != end || number > high) {
    throw UsageError(what + " is a whole number up to " + std::to_string(high) + ", not '" + text +
                     "'.");
  }
  return number;
}

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
  return parts;
}

Argument parse_argument(device::Device& device, const std::string& word,
                        const std::vector<Argument>& earlier, std::uint64_t seed) {
  const auto [kind, rest] = cut(word, ':');
  if (kind == "map") return tensor_map(device, rest, seed);
  if (kind == "buffer") {
    const auto [type, contents] = cut(rest, ':');
    const auto [count, fill] = cut(contents, '=');
    return with_memory(device, find_format(type), whole_number("a count", count, most_elements),
                       fill, seed);
  }
  if (kind == "same") {
    const std::uint64_t index = whole_number("an argument", rest, SIZE_MAX);
    if (index >= earlier.size() || earlier[index].format == nullptr) {
      throw UsageError("there is no buffer or map " + rest + " before it.");
    }
    return {bytes_of(earlier[index].memory.address()), {}, 0, nullptr};
  }
  const ElementFormat& format = find_format(kind);
  Argument argument{std::vector<std::byte>(format.bytes), {}, 0, nullptr};
  format.store(number(rest), argument.value.data());
  return argument;
}

std::string describe(device::Device& device, const Argument& argument, std::size_t count) {
  const ElementFormat& format = *argument.format;
  const std::size_t shown = std::min(count, argument.elements);
  std::vector<std::byte> host(shown * format.bytes);
  device.copy_to_host(host.data(), argument.memory.address(), host.size());
  std::string line = std::string(format.name) + " x " + std::to_string(argument.elements) + ":";
  for (std::size_t i = 0; i < shown; ++i) line += ' ' + format.text(host.data() + i * format.bytes);
  return line + (shown < argument.elements ? " ..." : "");
}

}  // namespace ptxrun
