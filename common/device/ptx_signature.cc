#include "common/device/ptx_signature.h"

#include <algorithm>
#include <charconv>

#include "common/device/concat.h"
#include "common/device/errors.h"

namespace device {
namespace {

constexpr const char* advice =
    ". Program and PTX must be of one make: rebuild, or edit a fresh copy from --dump-ptx.";

/// Cuts PTX into words and single punctuation characters; skips spaces and comments.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}

  /// The next token; empty at the end of the text.
  std::string_view next() {
    skip_blanks();
    const std::size_t length = std::max<std::size_t>(1, text_.find_first_of(" \t\r\n(),[]{}/"));
    const std::string_view token = text_.substr(0, length);
    drop(length);
    return token;
  }

 private:
  void skip_blanks() {
    for (;;) {
      drop(text_.find_first_not_of(" \t\r\n"));
      if (text_.starts_with("//")) {
        drop(text_.find('\n'));
      } else if (text_.starts_with("/*")) {
        drop(text_.find("*/"));
        drop(2);
      } else {
        return;
      }
    }
  }

  void drop(std::size_t count) { text_.remove_prefix(std::min(count, text_.size())); }

  std::string_view text_;
};

/// A scanner that stands behind the name of `entry`.
Scanner find_entry(std::string_view ptx, std::string_view entry) {
  constexpr std::string_view keyword = ".entry";
  for (std::size_t at = ptx.find(keyword); at != ptx.npos; at = ptx.find(keyword, at + 1)) {
    Scanner scanner(ptx.substr(at + keyword.size()));
    if (scanner.next() == entry) return scanner;
  }
  throw Failure(concat("The PTX has no entry ", entry, advice));
}

/// The whole of `text` as a number; 0 if it is none.
std::size_t number(std::string_view text) {
  std::size_t value = 0;
  const char* const end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, value);
  return result.ec == std::errc() && result.ptr == end ? value : 0;
}

/// Bytes of a fundamental type such as ".u64"; 0 if `word` names none.
std::size_t type_bytes(std::string_view word) {
  const bool is_type = word.size() > 2 && word[0] == '.' &&
                       std::string_view("bsuf").find(word[1]) != std::string_view::npos;
  return is_type ? number(word.substr(2)) / 8 : 0;
}

/// Reads the words of one parameter, those between two commas.
Parameter read_parameter(std::span<const std::string_view> words) {
  std::size_t element = 0, count = 1, alignment = 0;
  bool is_pointer = false;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string_view operand = i + 1 < words.size() ? words[i + 1] : std::string_view();
    if (words[i] == ".ptr") {
      is_pointer = true;
    } else if (words[i] == ".align" && !is_pointer) {  // behind .ptr it speaks of the pointee
      alignment = number(operand);
    } else if (words[i] == "[") {
      count *= number(operand);
    } else if (type_bytes(words[i]) != 0) {
      element = type_bytes(words[i]);
    }
  }
  return {element * count, alignment != 0 ? alignment : element};
}

/// "8 bytes, aligned to 4"
std::string layout(std::size_t size, std::size_t alignment) {
  return concat(counted(size, "byte"), ", aligned to ", alignment);
}

}  // namespace

std::vector<Parameter> entry_parameters(std::string_view ptx, std::string_view entry) {
  Scanner scanner = find_entry(ptx, entry);
  if (scanner.next() != "(") return {};
  std::vector<std::string_view> words;
  for (auto token = scanner.next(); token != ")"; token = scanner.next()) {
    if (token.empty()) throw Failure(concat("The parameters of ", entry, " in the PTX don't end."));
    words.push_back(token);
  }

  std::vector<Parameter> parameters;
  for (auto first = words.begin(); first != words.end();) {
    const auto last = std::find(first, words.end(), ",");
    parameters.push_back(read_parameter({first, last}));
    if (parameters.back().size == 0) {
      throw Failure(concat("Parameter ", parameters.size(), " of ", entry,
                           " in the PTX can't be read: it has no type that is known."));
    }
    first = last == words.end() ? last : last + 1;
  }
  return parameters;
}

void check_arguments(std::string_view kernel, std::span<const Parameter> parameters,
                     std::span<const Argument> arguments) {
  if (arguments.size() != parameters.size()) {
    throw Failure(concat("Kernel ", kernel, " is launched with ",
                         counted(arguments.size(), "argument"), ", but its PTX has ",
                         counted(parameters.size(), "parameter"), advice));
  }
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (Parameter{arguments[i].size, arguments[i].alignment} != parameters[i]) {
      throw Failure(concat("Argument ", i + 1, " of kernel ", kernel, " is ",
                           layout(arguments[i].size, arguments[i].alignment), ", but its PTX has ",
                           layout(parameters[i].size, parameters[i].alignment), advice));
    }
  }
}

}  // namespace device
