// Golden files: what a GPU answered, kept for comparison. README.md describes the format.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace golden {

/// The result of one case: some 32-bit words, all of them or a digest.
struct Record {
  std::string name;
  std::uint32_t count = 0;                  ///< words of the result
  std::vector<std::uint32_t> words;         ///< the first ones; `count` of them in a whole record
  std::vector<std::uint32_t> block_hashes;  ///< of each `block_words` words; none in a whole record
};

/// Words that share a hash in a digest.
inline constexpr std::size_t block_words = 256;
/// Words that a digest keeps as they are.
inline constexpr std::size_t digest_words = 64;

Record whole(std::string name, std::span<const std::uint32_t> words);
/// A result that must be matched bit for bit: its first words, and a hash of each block. Short
/// results are kept whole.
Record digest(std::string name, std::span<const std::uint32_t> words);

struct File {
  std::string origin;  ///< "NVIDIA H200, driver 13000, runtime 13000"
  std::vector<Record> records;

  /// The record of this name, nullptr if there is none.
  const Record* find(const std::string& name) const;
};

/// Throws std::runtime_error in words if the path can't be written.
void write(const std::string& path, const File& file);
/// nullopt if there is no such file. Throws std::runtime_error in words if it can't be read or its
/// checksum is wrong.
std::optional<File> read(const std::string& path);

/// Where `words` differ from the record ("word 17 is 3F800000, not 3F800001", "a word in 256 to
/// 511 differs"); nothing if they agree.
std::optional<std::string> difference(const Record& record, std::span<const std::uint32_t> words);

}  // namespace golden
