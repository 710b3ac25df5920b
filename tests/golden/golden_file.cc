#include "tests/golden/golden_file.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <stdexcept>

namespace golden {
namespace {

constexpr char magic[8] = {'G', 'O', 'L', 'D', 'E', 'N', '0', '1'};

/// FNV-1a, 64 bits.
std::uint64_t checksum(std::string_view bytes) {
  std::uint64_t hash = 0xCBF2'9CE4'8422'2325;
  for (char byte : bytes) hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100'0000'01B3;
  return hash;
}

/// FNV-1a over words, folded to 32 bits.
std::uint32_t block_hash(std::span<const std::uint32_t> words) {
  std::uint64_t hash = 0xCBF2'9CE4'8422'2325;
  for (std::uint32_t word : words) hash = (hash ^ word) * 0x100'0000'01B3;
  return static_cast<std::uint32_t>(hash ^ hash >> 32);
}

std::vector<std::uint32_t> block_hashes(std::span<const std::uint32_t> words) {
  std::vector<std::uint32_t> hashes;
  for (std::size_t first = 0; first < words.size(); first += block_words) {
    hashes.push_back(block_hash(words.subspan(first, std::min(block_words, words.size() - first))));
  }
  return hashes;
}

void append_words(std::string& bytes, std::span<const std::uint32_t> words) {
  bytes.append(reinterpret_cast<const char*>(words.data()), words.size_bytes());
}

void append_word(std::string& bytes, std::size_t value) {
  const auto word = static_cast<std::uint32_t>(value);
  append_words(bytes, {&word, 1});
}

void append_string(std::string& bytes, const std::string& text) {
  append_word(bytes, text.size());
  bytes += text;
}

/// Takes a file apart from the front.
class Reader {
 public:
  Reader(std::string_view bytes, std::string path) : bytes_(bytes), path_(std::move(path)) {}

  std::string_view take(std::size_t count) {
    if (count > bytes_.size()) {
      throw std::runtime_error(path_ + " ends too early. Write it anew with the dump program.");
    }
    const std::string_view taken = bytes_.substr(0, count);
    bytes_.remove_prefix(count);
    return taken;
  }
  std::vector<std::uint32_t> words(std::size_t count) {
    const std::string_view taken = take(count * sizeof(std::uint32_t));
    std::vector<std::uint32_t> result(count);
    std::copy_n(taken.data(), taken.size(), reinterpret_cast<char*>(result.data()));
    return result;
  }
  std::uint32_t word() { return words(1)[0]; }
  std::string text() { return std::string(take(word())); }
  std::string_view rest() const { return bytes_; }

 private:
  std::string_view bytes_;
  std::string path_;
};

std::string hexadecimal(std::uint32_t word) {
  char text[9];
  std::snprintf(text, sizeof(text), "%08X", word);
  return text;
}

}  // namespace

Record whole(std::string name, std::span<const std::uint32_t> words) {
  return {
      std::move(name), static_cast<std::uint32_t>(words.size()), {words.begin(), words.end()}, {}};
}

Record digest(std::string name, std::span<const std::uint32_t> words) {
  if (words.size() <= 2 * digest_words) return whole(std::move(name), words);
  const auto first = words.first(digest_words);
  return {std::move(name),
          static_cast<std::uint32_t>(words.size()),
          {first.begin(), first.end()},
          block_hashes(words)};
}

const Record* File::find(const std::string& name) const {
  const auto found = std::find_if(records.begin(), records.end(),
                                  [&](const Record& record) { return record.name == name; });
  return found == records.end() ? nullptr : &*found;
}

void write(const std::string& path, const File& file) {
  std::string payload;
  append_string(payload, file.origin);
  append_word(payload, file.records.size());
  for (const Record& record : file.records) {
    append_string(payload, record.name);
    append_word(payload, record.count);
    append_word(payload, record.words.size());
    append_words(payload, record.words);
    append_words(payload, record.block_hashes);
  }
  const std::uint64_t sum = checksum(payload);
  std::ofstream stream(path, std::ios::binary);
  stream.write(magic, sizeof(magic));
  stream.write(reinterpret_cast<const char*>(&sum), sizeof(sum));
  stream.write(payload.data(), static_cast<std::streamsize>(payload.size()));
  stream.close();
  if (!stream) throw std::runtime_error(path + " can't be written. Does its folder exist?");
}

std::optional<File> read(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  if (!stream) return std::nullopt;
  const std::string bytes{std::istreambuf_iterator<char>(stream), {}};
  Reader reader(bytes, path);
  if (reader.take(sizeof(magic)) != std::string_view(magic, sizeof(magic))) {
    throw std::runtime_error(path + " is no golden file of this version.");
  }
  std::uint64_t sum = 0;
  std::memcpy(&sum, reader.take(sizeof(sum)).data(), sizeof(sum));
  if (checksum(reader.rest()) != sum) {
    throw std::runtime_error(path + " is damaged: its checksum is wrong.");
  }
  File file;
  file.origin = reader.text();
  file.records.resize(reader.word());
  for (Record& record : file.records) {
    record.name = reader.text();
    record.count = reader.word();
    record.words = reader.words(reader.word());
    const bool is_whole = record.words.size() == record.count;
    const std::size_t blocks = (record.count + block_words - 1) / block_words;
    record.block_hashes = reader.words(is_whole ? 0 : blocks);
  }
  return file;
}

std::optional<std::string> difference(const Record& record, std::span<const std::uint32_t> words) {
  if (words.size() != record.count) {
    return "there are " + std::to_string(words.size()) + " words, not " +
           std::to_string(record.count);
  }
  for (std::size_t i = 0; i < record.words.size(); ++i) {
    if (words[i] == record.words[i]) continue;
    return "word " + std::to_string(i) + " is " + hexadecimal(words[i]) + ", not " +
           hexadecimal(record.words[i]);
  }
  if (record.block_hashes.empty()) return std::nullopt;
  const std::vector<std::uint32_t> hashes = block_hashes(words);
  for (std::size_t i = 0; i < hashes.size(); ++i) {
    if (hashes[i] == record.block_hashes[i]) continue;
    return "a word in " + std::to_string(i * block_words) + " to " +
           std::to_string(std::min<std::size_t>((i + 1) * block_words, record.count) - 1) +
           " differs";
  }
  return std::nullopt;
}

}  // namespace golden
