#include "common/emulator/token_reader.h"

#include <utility>

namespace emulator {

Token TokenReader::take() {
  return std::exchange(token_, lexer_.next());
}

bool TokenReader::accept(char punctuation) {
  if (!at(punctuation)) return false;
  take();
  return true;
}

bool TokenReader::accept(std::string_view directive) {
  if (!at(Token::Kind::directive) || token_.text != directive) return false;
  take();
  return true;
}

void TokenReader::expect(char punctuation, std::string_view where) {
  if (accept(punctuation)) return;
  fail_expected("'" + std::string(1, punctuation) + "' " + std::string(where));
}

Token TokenReader::expect(Token::Kind kind, std::string_view what) {
  if (!at(kind)) fail_expected(what);
  return take();
}

void TokenReader::expect_word(std::string_view word) {
  if (!at(Token::Kind::word) || token_.text != word) fail_expected(word);
  take();
}

Token TokenReader::expect_name(std::string_view what) {
  if (!at(Token::Kind::word) || !is_identifier(token_.text)) fail_expected(what);
  return take();
}

std::uint64_t TokenReader::expect_integer(std::string_view what, std::uint64_t least,
                                          std::uint64_t most) {
  if (!at(Token::Kind::integer) || token_.bits < least || token_.bits > most) {
    fail_expected(std::string(what) + " from " + std::to_string(least) + " to " +
                  std::to_string(most));
  }
  return take().bits;
}

void TokenReader::fail_expected(std::string_view what) const {
  fail("expected " + std::string(what) + ", found " +
       (at(Token::Kind::end) ? "the end of the text" : quoted(token_.text)) + ".");
}

}  // namespace emulator
