// Tokens with one of lookahead, and the sentences that say what was expected instead.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "common/emulator/lexer.h"

namespace emulator {

/// Reads the tokens of a PTX text in order. Every member may throw what Lexer::next() throws.
class TokenReader {
 public:
  /// `text` must outlive the tokens.
  explicit TokenReader(std::string_view text) : lexer_(text), token_(lexer_.next()) {}

  /// The next token, which stays the next.
  const Token& peek() const { return token_; }
  Token take();

  bool at(Token::Kind kind) const { return token_.kind == kind; }
  bool at(char punctuation) const { return token_.is(punctuation); }

  /// Takes the next token if it is this one, and says whether it was.
  bool accept(char punctuation);
  bool accept(std::string_view directive);

  /// Takes the next token, or throws PtxError "expected <what>, found ..." if it is another one.
  /// `where` goes on behind the punctuation: "behind the operands".
  void expect(char punctuation, std::string_view where);
  Token expect(Token::Kind kind, std::string_view what);
  /// Likewise for this word.
  void expect_word(std::string_view word);
  /// Likewise for an identifier that a declaration may introduce.
  Token expect_name(std::string_view what);
  /// Likewise for an integer between `least` and `most`.
  std::uint64_t expect_integer(std::string_view what, std::uint64_t least, std::uint64_t most);

  /// Throws PtxError with the line of the next token.
  [[noreturn]] void fail(const std::string& message) const { fail_at(token_.line, message); }
  [[noreturn]] void fail_expected(std::string_view what) const;

 private:
  Lexer lexer_;
  Token token_;
};

}  // namespace emulator
