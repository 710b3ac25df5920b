#include "common/emulator/lexer.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>

#include "common/emulator/report.h"

namespace emulator {
namespace {

constexpr bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
constexpr bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/// What follows the first character of an identifier (PTX ISA 4.4), for all 256 characters.
constexpr auto follows_in_word = [] {
  std::array<bool, 256> table{};
  for (int c = 0; c < 256; ++c) {
    const char character = static_cast<char>(c);
    table[c] = is_letter(character) || is_digit(character) || c == '_' || c == '$';
  }
  return table;
}();
constexpr bool in_word(char c) {
  return follows_in_word[static_cast<unsigned char>(c)];
}
constexpr bool starts_word(char c) {
  return is_letter(c) || c == '_' || c == '$' || c == '%';
}

/// All of `digits` as a number in `base`.
std::uint64_t parse_digits(const Token& token, std::string_view digits, int base) {
  std::uint64_t value = 0;
  const char* const end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, value, base);
  if (error == std::errc::result_out_of_range) {
    fail_at(token.line, quoted(token.text) + " does not fit 64 bits.");
  }
  if (error != std::errc() || stop != end) {
    fail_at(token.line, quoted(token.text) + " is not a number of base " + std::to_string(base) +
                            "; expected digits and at most one U behind them.");
  }
  return value;
}

/// A literal such as 0f3F800000: `digits` hexadecimal digits behind a prefix of two characters.
std::uint64_t parse_encoding(const Token& token, std::size_t digits) {
  if (token.text.size() != 2 + digits) {
    fail_at(token.line, quoted(token.text) + " must have " + std::to_string(digits) +
                            " hexadecimal digits behind its prefix.");
  }
  return parse_digits(token, token.text.substr(2), 16);
}

/// A decimal floating-point literal as the bits of a double.
std::uint64_t parse_decimal(const Token& token) {
  double value = 0;
  const char* const end = token.text.data() + token.text.size();
  const auto [stop, error] = std::from_chars(token.text.data(), end, value);
  if (error != std::errc() || stop != end) {
    fail_at(token.line, quoted(token.text) + " is not a floating-point number of 64 bits.");
  }
  return std::bit_cast<std::uint64_t>(value);
}

/// PTX ISA 4.5.1: 0x..., 0b..., octal 0..., decimal; U makes it unsigned, which changes no bits.
std::uint64_t parse_integer(const Token& token) {
  std::string_view digits = token.text;
  if (digits.ends_with('U')) digits.remove_suffix(1);
  if (digits.size() < 2 || digits[0] != '0') return parse_digits(token, digits, 10);
  switch (digits[1]) {
    case 'x':
    case 'X':
      return parse_digits(token, digits.substr(2), 16);
    case 'b':
    case 'B':
      return parse_digits(token, digits.substr(2), 2);
    default:
      return parse_digits(token, digits.substr(1), 8);
  }
}

}  // namespace

Token Lexer::next() {
  skip_blanks();
  if (at_ == text_.size()) return take(Token::Kind::end, at_);
  const char c = text_[at_];
  if (starts_word(c)) return word();
  if (is_digit(c) || (c == '.' && is_digit(peek(1)))) return number();
  if (c == '.') return directive();
  if (c == '"') return string();
  constexpr std::string_view punctuation = "{}()[],;:@!|+-=<>";
  if (punctuation.find(c) != punctuation.npos) {
    return take(Token::Kind::punctuation, at_ + 1);
  }
  fail_at(line_, "unexpected character " + quoted(text_.substr(at_, 1)) + ".");
}

void Lexer::skip_blanks() {
  while (at_ < text_.size()) {
    const char c = text_[at_];
    if (c == '\n') {
      ++line_;
      ++at_;
    } else if (c == ' ' || c == '\t' || c == '\r') {
      ++at_;
    } else if (c == '/' && peek(1) == '/') {
      at_ = std::min(text_.find('\n', at_), text_.size());
    } else if (c == '/' && peek(1) == '*') {
      skip_block_comment();
    } else {
      return;
    }
  }
}

void Lexer::skip_block_comment() {
  const std::size_t end = text_.find("*/", at_ + 2);
  if (end == text_.npos) fail_at(line_, "a comment starts here and does not end; expected */.");
  for (; at_ < end; ++at_) line_ += text_[at_] == '\n';
  at_ = end + 2;
}

Token Lexer::word() {
  std::size_t end = at_ + 1;
  for (;;) {
    while (end < text_.size() && in_word(text_[end])) ++end;
    // A dot or a double colon belongs to the word when a part follows it.
    const std::string_view rest = text_.substr(end, 3);
    if (rest.size() >= 2 && rest[0] == '.' && in_word(rest[1])) {
      end += 2;
    } else if (rest.size() == 3 && rest.starts_with("::") && in_word(rest[2])) {
      end += 3;
    } else {
      return take(Token::Kind::word, end);
    }
  }
}

Token Lexer::directive() {
  std::size_t end = at_ + 1;
  while (end < text_.size() && in_word(text_[end])) ++end;
  if (end == at_ + 1) fail_at(line_, "a dot stands alone; expected a directive such as .reg.");
  if (text_.substr(end, 2) == "::") {
    end += 2;
    while (end < text_.size() && in_word(text_[end])) ++end;
  }
  return take(Token::Kind::directive, end);
}

Token Lexer::number() {
  // The letter of 0x, 0b, 0f or 0d in lower case. 0e1 is a decimal number, 0U an integer.
  const char letter = text_[at_] == '0' && is_letter(peek(1)) ? peek(1) | 0x20 : '\0';
  const bool has_prefix = letter != '\0' && letter != 'e';
  const auto continues_at = [&](std::size_t i) {
    const char c = text_[i];
    if (in_word(c)) return true;
    if (has_prefix) return false;
    return c == '.' || ((c == '+' || c == '-') && (text_[i - 1] == 'e' || text_[i - 1] == 'E'));
  };
  std::size_t end = at_ + 1;
  while (end < text_.size() && continues_at(end)) ++end;

  Token token = take(Token::Kind::integer, end);
  if (!has_prefix && token.text.find_first_of(".eE") != token.text.npos) {
    token.kind = Token::Kind::f64;
    token.bits = parse_decimal(token);
  } else if (letter == 'f') {
    token.kind = Token::Kind::f32;
    token.bits = parse_encoding(token, 8);
  } else if (letter == 'd') {
    token.kind = Token::Kind::f64;
    token.bits = parse_encoding(token, 16);
  } else {
    token.bits = parse_integer(token);
  }
  return token;
}

Token Lexer::string() {
  std::size_t end = at_ + 1;
  while (end < text_.size() && text_[end] != '"' && text_[end] != '\n') {
    const bool is_escape = text_[end] == '\\' && end + 1 < text_.size() && text_[end + 1] != '\n';
    end += is_escape ? 2 : 1;
  }
  if (end >= text_.size() || text_[end] != '"') {
    fail_at(line_, "a string starts here and does not end on its line; expected \".");
  }
  Token token = take(Token::Kind::string, end + 1);
  token.text = token.text.substr(1, token.text.size() - 2);
  return token;
}

Token Lexer::take(Token::Kind kind, std::size_t end) {
  const Token token{kind, line_, text_.substr(at_, end - at_), 0};
  at_ = end;
  return token;
}

bool is_identifier(std::string_view word) {
  const bool is_lone_sign = word.size() == 1 && !is_letter(word[0]);
  return !is_lone_sign && word.find_first_of(".:") == word.npos;
}

std::string quoted(std::string_view text) {
  constexpr std::size_t longest = 80;
  std::string result = "'";
  for (const char c : text.substr(0, longest)) {
    if (c >= ' ' && c <= '~') {
      result += c;
    } else {
      constexpr char digits[] = "0123456789ABCDEF";
      const auto byte = static_cast<unsigned char>(c);
      result += {'\\', 'x', digits[byte >> 4], digits[byte & 15]};
    }
  }
  return result + (text.size() > longest ? "...'" : "'");
}

void fail_at(int line, const std::string& message) {
  throw PtxError("PTX line " + std::to_string(line) + ": " + message);
}

}  // namespace emulator
