#include "common/emulator/variable_parser.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <iterator>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/emulator/parser.h"

namespace emulator {
namespace {

constexpr std::size_t bytes_of(const Type& type) {
  return static_cast<std::size_t>(type.bits) / 8;
}

/// Takes `.align N`, if it is next, and returns N.
std::optional<std::size_t> accept_alignment(TokenReader& reader) {
  if (!reader.accept(".align")) return std::nullopt;
  const int line = reader.peek().line;
  const auto alignment = reader.expect_integer("an alignment", 1, parser_limits.alignment);
  if (!std::has_single_bit(alignment)) {
    fail_at(line, "the alignment " + std::to_string(alignment) + " is not a power of two.");
  }
  return alignment;
}

/// Takes `.attribute(.managed)`, if it is next: managed memory is global memory to a kernel.
void accept_managed(TokenReader& reader) {
  if (!reader.accept(".attribute")) return;
  reader.expect('(', "behind .attribute");
  if (!reader.accept(".managed")) reader.fail_expected(".managed, the one attribute supported");
  reader.expect(')', "behind the attribute");
}

std::size_t accept_vector_size(TokenReader& reader) {
  if (reader.accept(".v2")) return 2;
  if (reader.accept(".v4")) return 4;
  return 1;
}

/// Takes `.ptr .global .align 16`, if it is next.
void skip_pointer_attributes(TokenReader& reader) {
  if (!reader.accept(".ptr")) return;
  accept_space(reader);
  accept_alignment(reader);
}

/// Takes `[2][3]`. A first dimension without a size is 0.
std::vector<std::size_t> parse_dimensions(TokenReader& reader) {
  std::vector<std::size_t> dimensions;
  while (reader.accept('[')) {
    if (dimensions.size() == parser_limits.dimensions) {
      reader.fail("an array has more than " + std::to_string(parser_limits.dimensions) +
                  " dimensions, which is the limit of this parser.");
    }
    const bool has_no_size = dimensions.empty() && reader.at(']');
    dimensions.push_back(
        has_no_size ? 0 : reader.expect_integer("an array size", 1, parser_limits.variable_bytes));
    reader.expect(']', "behind the array size");
  }
  return dimensions;
}

/// The product of the sizes, or one byte more than any variable may have.
std::size_t total_bytes(const VariableType& type, std::span<const std::size_t> dimensions) {
  std::size_t total = bytes_of(*type.element) * type.vector_size;
  for (const std::size_t size : dimensions) {
    total = std::min(total * size, parser_limits.variable_bytes + 1);
  }
  return total;
}

/// Takes an integer, perhaps negative, that `type` can hold signed or unsigned, as its bits.
std::uint64_t parse_integer_value(TokenReader& reader, const Type& type) {
  const bool is_negative = reader.accept('-');
  const Token token = reader.expect(Token::Kind::integer, "an integer initializer");
  const std::uint64_t most = type.bits == 64 ? ~0ull : (1ull << type.bits) - 1;
  if (token.bits > (is_negative ? most / 2 + 1 : most)) {
    fail_at(token.line, "the initializer " + std::string(is_negative ? "-" : "") +
                            std::string(token.text) + " does not fit " + std::string(type.name) +
                            ".");
  }
  return is_negative ? 0 - token.bits : token.bits;
}

/// The value of a floating-point literal in the encoding of .f32 or .f64.
std::uint64_t convert_encoding(const Token& literal, int bits) {
  const int literal_bits = literal.kind == Token::Kind::f32 ? 32 : 64;
  if (literal_bits == bits) return literal.bits;  // not through arithmetic, which changes some NaNs
  if (bits == 32) {
    return std::bit_cast<std::uint32_t>(static_cast<float>(std::bit_cast<double>(literal.bits)));
  }
  const auto narrow = static_cast<std::uint32_t>(literal.bits);
  return std::bit_cast<std::uint64_t>(static_cast<double>(std::bit_cast<float>(narrow)));
}

/// Takes a floating-point literal, perhaps negative, as the bits of .f32 or .f64.
std::uint64_t parse_floating_value(TokenReader& reader, const Type& type) {
  const bool is_negative = reader.accept('-');
  if (!reader.at(Token::Kind::f32) && !reader.at(Token::Kind::f64)) {
    reader.fail_expected("a floating-point initializer such as 0f3F800000 or 1.0");
  }
  const Token token = reader.take();
  const std::uint64_t bits = convert_encoding(token, type.bits);
  return is_negative ? bits ^ (1ull << (type.bits - 1)) : bits;
}

/// Takes one value of `type` and stores it at the front of `bytes`.
void parse_value(TokenReader& reader, const Type& type, std::span<std::byte> bytes) {
  if (reader.at(Token::Kind::word)) {
    reader.fail("the initializer names " + quoted(reader.peek().text) +
                "; addresses in initializers are not supported. Assign it in the kernel instead.");
  }
  const std::uint64_t value = type.kind == Type::Kind::floating ? parse_floating_value(reader, type)
                                                                : parse_integer_value(reader, type);
  static_assert(std::endian::native == std::endian::little);
  std::memcpy(bytes.data(), &value, bytes_of(type));
}

/// Takes what initializes an array of these dimensions, which fills `bytes`: nested braces, down to
/// one value where no dimension is left. Elements that are not given keep their zeros.
void parse_elements(TokenReader& reader, const Type& type, std::span<const std::size_t> dimensions,
                    std::span<std::byte> bytes) {
  if (dimensions.empty()) return parse_value(reader, type, bytes);
  reader.expect('{', "before the elements of an array");
  const std::size_t element_bytes = bytes.size() / dimensions[0];
  std::size_t count = 0;
  do {
    if (count == dimensions[0]) {
      reader.fail("the initializer has more than the " + std::to_string(dimensions[0]) +
                  " elements of its array.");
    }
    parse_elements(reader, type, dimensions.subspan(1),
                   bytes.subspan(count * element_bytes, element_bytes));
    ++count;
  } while (reader.accept(','));
  reader.expect('}', "behind the elements of an array");
}

/// Takes an initializer, as the bytes of the whole variable.
std::vector<std::byte> parse_initializer(TokenReader& reader, const VariableType& type,
                                         std::span<const std::size_t> dimensions,
                                         const Variable& variable) {
  const bool can_have_one = type.space == Space::global || type.space == Space::constant;
  const int bits = type.element->bits;
  const bool has_values = bits <= 64 && (type.element->kind != Type::Kind::floating ||
                                         type.element->name == ".f32" || bits == 64);
  if (!can_have_one || variable.external || type.vector_size != 1 || !has_values) {
    reader.fail(quoted(variable.name) +
                " can't have an initializer: only .global and .const variables of integer, .b, "
                ".f32 and .f64 types that are neither .extern nor vectors can.");
  }
  std::vector<std::byte> bytes(variable.size);
  parse_elements(reader, *type.element, dimensions, bytes);
  return bytes;
}

}  // namespace

const Type& parse_type(TokenReader& reader) {
  using enum Type::Kind;
  static constexpr Type types[] = {
      {".pred", 1, predicate}, {".b8", 8, untyped},    {".b16", 16, untyped},
      {".b32", 32, untyped},   {".b64", 64, untyped},  {".b128", 128, untyped},
      {".u8", 8, integer},     {".u16", 16, integer},  {".u32", 32, integer},
      {".u64", 64, integer},   {".s8", 8, integer},    {".s16", 16, integer},
      {".s32", 32, integer},   {".s64", 64, integer},  {".f16", 16, floating},
      {".f32", 32, floating},  {".f64", 64, floating}, {".f16x2", 32, floating},
  };
  const auto found = std::find_if(std::begin(types), std::end(types), [&](const Type& type) {
    return type.name == reader.peek().text;
  });
  if (found == std::end(types)) reader.fail_expected("a type such as .b32");
  reader.take();
  return *found;
}

std::optional<Space> accept_space(TokenReader& reader) {
  if (reader.accept(".param")) return Space::param;
  if (reader.accept(".global")) return Space::global;
  if (reader.accept(".shared")) return Space::shared;
  if (reader.accept(".local")) return Space::local;
  if (reader.accept(".const")) return Space::constant;
  return std::nullopt;
}

VariableType parse_variable_type(TokenReader& reader, Space space) {
  accept_managed(reader);
  const std::optional<std::size_t> alignment = accept_alignment(reader);
  const std::size_t vector_size = accept_vector_size(reader);
  const int line = reader.peek().line;
  const Type& element = parse_type(reader);
  if (element.kind == Type::Kind::predicate) fail_at(line, "a variable can't be of type .pred.");
  skip_pointer_attributes(reader);
  return {space, &element, vector_size, alignment.value_or(bytes_of(element) * vector_size)};
}

Declaration parse_declarator(TokenReader& reader, Budget& budget, const VariableType& type,
                             bool external) {
  const Token name = reader.expect_name("the name of a variable");
  const std::vector<std::size_t> dimensions = parse_dimensions(reader);

  Variable variable;
  variable.name = name.text;
  variable.space = type.space;
  variable.alignment = type.alignment;
  variable.external = external;
  variable.size = total_bytes(type, dimensions);
  if (variable.size == 0 && !(external && type.space == Space::shared)) {
    fail_at(name.line, quoted(name.text) +
                           " needs an array size: only an .extern .shared array can be without.");
  }
  spend(budget.variable_bytes, variable.size, parser_limits.variable_bytes, "bytes of variables",
        name.line);
  if (reader.accept('=')) {
    variable.initial = parse_initializer(reader, type, dimensions, variable);
  }
  return {std::move(variable), name.line};
}

}  // namespace emulator
