// PTX text as tokens. PTX ISA chapter 4.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace emulator {

struct Token {
  enum class Kind : std::uint8_t {
    end,          ///< of the text
    word,         ///< an identifier with its dotted parts: "%r1", "%tid.x", "ld.shared::cta.u32"
    directive,    ///< ".reg", ".b32"
    integer,      ///< bits: the value
    f32,          ///< 0f3F800000; bits: the encoding
    f64,          ///< 0d3FF0000000000000, 1.0, 1e-3; bits: the encoding
    string,       ///< text: what stands between the quotes, escapes as written
    punctuation,  ///< one character
  };
  Kind kind = Kind::end;
  int line = 1;           ///< in the PTX, from 1
  std::string_view text;  ///< as written
  std::uint64_t bits = 0;

  bool is(char punctuation) const {
    return kind == Kind::punctuation && text.front() == punctuation;
  }
};

/// Cuts PTX into tokens; skips blanks and both kinds of comment.
class Lexer {
 public:
  /// `text` must outlive the tokens, which are views of it.
  explicit Lexer(std::string_view text) : text_(text) {}

  /// The next token. Throws PtxError at a character that starts none, a malformed number, and a
  /// comment or string that does not end.
  Token next();

 private:
  void skip_blanks();
  void skip_block_comment();
  Token word();
  Token directive();
  Token number();
  Token string();
  char peek(std::size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
  }
  Token take(Token::Kind kind, std::size_t end);

  std::string_view text_;
  std::size_t at_ = 0;
  int line_ = 1;
};

/// Whether a declaration may introduce `word`: no dots, and more than a lone `_`, `%` or `$`.
bool is_identifier(std::string_view word);

/// `text` in quotes, for messages: unprintable bytes escaped, cut where it gets long.
std::string quoted(std::string_view text);

/// Throws PtxError "PTX line <line>: <message>".
[[noreturn]] void fail_at(int line, const std::string& message);

}  // namespace emulator
