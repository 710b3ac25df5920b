// Tensor copies on the emulated machine against what a GPU answered (tests/golden/README.md): the
// cases are written as PTX and run, so that the copy engine is held to it and not only the pure
// functions that it calls.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/emulator/tensor_map_record.h"
#include "tests/catch.h"
#include "tests/golden/golden_file.h"
#include "tests/golden/tensor_cases.h"
#include "tests/unit/emulator_lab.h"

using golden::Record;
using golden::TensorCase;
using golden::TensorDirection;
using golden::TensorEnding;

namespace {

constexpr const char* copies_path = "tests/golden/data/tensors.golden";
constexpr const char* endings_path = "tests/golden/data/tensor_endings.golden";

std::string suffix(emulator::ReduceOperation operation) {
  constexpr const char* names[] = {"add", "min", "max", "inc", "dec", "and", "or", "xor"};
  return names[static_cast<std::size_t>(operation)];
}

/// The instruction under test, by one thread: map in %map, box in %r3, mbarrier in %r1.
std::string copy_text(const TensorCase& c) {
  const std::string rank = std::to_string(c.map.rank) + "d";
  std::string text;
  std::string coordinates;
  for (int i = 0; i < c.map.rank; ++i) {
    const std::string name = "%r" + std::to_string(10 + i);
    text += "mov.b32 " + name + ", " + std::to_string(c.coordinates[i]) + ";\n";
    coordinates += (i == 0 ? "" : ", ") + name;
  }
  const std::string tensor = "[%map, {" + coordinates + "}]";
  const std::string close = ";\ncp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;\n";
  switch (c.direction) {
    case TensorDirection::load:
      return text + "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], " +
             std::to_string(emulator::box_bytes(c.map)) + ";\ncp.async.bulk.tensor." + rank +
             ".shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r3], " + tensor +
             ", [%r1];\nLANDED: mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r1], 1;\n"
             "@!%p1 bra LANDED;\n";
    case TensorDirection::store:
      return text + "cp.async.bulk.tensor." + rank + ".global.shared::cta.tile.bulk_group " +
             tensor + ", [%r3]" + close;
    case TensorDirection::reduce:
      return text + "cp.reduce.async.bulk.tensor." + rank + ".global.shared::cta." +
             suffix(c.operation) + ".tile.bulk_group " + tensor + ", [%r3]" + close;
  }
  return "";
}

/// Fills shared memory from `image`, copies, and writes shared memory back.
std::string ptx(const TensorCase& c) {
  const std::string bytes = std::to_string(golden::tensor_shared_bytes);
  return lab::kernel_text(
      {"map", "image"},
      ".shared .align 1024 .b8 tile[" + bytes + "];\n.shared .align 8 .b64 full;\n" +
          "mov.u32 %r1, full;\nmov.u32 %r2, tile;\nadd.u32 %r3, %r2, " +
          std::to_string(c.shared_offset) +
          ";\nmbarrier.init.shared::cta.b64 [%r1], 1;\nfence.mbarrier_init.release.cluster;\n"
          "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], " +
          bytes +
          ";\ncp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r2], [%image], " +
          bytes +
          ", [%r1];\nFILLED: mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r1], 0;\n"
          "@!%p1 bra FILLED;\n" +
          copy_text(c) + "cp.async.bulk.global.shared::cta.bulk_group [%image], [%r2], " + bytes +
          ";\ncp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;");
}

struct Run {
  emulator::Outcome outcome;
  std::vector<std::uint32_t> words;  ///< of golden::result_words()
};

Run run(const TensorCase& c) {
  lab::Lab machine;
  const std::vector<std::byte> memory = golden::tensor_memory(c);
  const std::vector<std::byte> shared = golden::tensor_shared(c);
  auto* const tensor = machine.array<std::byte>(memory.size());
  auto* const image = machine.array<std::byte>(shared.size());
  std::copy(memory.begin(), memory.end(), tensor);
  std::copy(shared.begin(), shared.end(), image);

  emulator::TensorMapRecord record = c.map;
  record.address = reinterpret_cast<std::uint64_t>(tensor);
  const emulator::TensorMapBytes bytes = emulator::encode_tensor_map(record);
  auto* const map = machine.array<std::byte>(bytes.size());
  std::copy(bytes.begin(), bytes.end(), map);

  Run result{machine.launch(ptx(c), lab::geometry(1, 1), map, image), {}};
  const bool load = c.direction == TensorDirection::load;
  result.words.resize(golden::result_words(c));
  std::memcpy(result.words.data(), load ? image + c.shared_offset : tensor,
              result.words.size() * sizeof(std::uint32_t));
  return result;
}

std::optional<golden::File> open(const char* path) {
  std::optional<golden::File> file = golden::read(path);
  if (!file) {
    WARN(path << " is not there, so nothing is compared. tests/golden/README.md says how a Hopper "
              << "GPU writes it.");
  }
  return file;
}

/// The rules by which the emulator stops a copy that the hardware stops in this way.
bool is_stopped_by(TensorEnding ending, const std::string& finding) {
  const auto rule = [&](const char* name) { return finding.rfind(name, 0) == 0; };
  if (ending == TensorEnding::misaligned_address) return rule("misaligned: ");
  return rule("misaligned: ") || rule("out-of-bounds: ") || rule("bad-tensor-map: ");
}

/// Sums of which the ISA says nothing. An H200 makes them; of what, no golden file tells.
bool is_without_model(const TensorCase& c) {
  return c.direction == TensorDirection::reduce &&
         (c.map.type == emulator::TensorType::f32_ftz || c.map.type == emulator::TensorType::tf32);
}

}  // namespace

TEST_CASE("tensor copies on the machine agree with the hardware", "[golden]") {
  const std::optional<golden::File> file = open(copies_path);
  if (!file) return;
  int compared = 0;
  for (const TensorCase& c : golden::tensor_cases()) {
    INFO(c.name);
    const Record* const record = file->find(c.name);
    REQUIRE(record != nullptr);
    if (record->count == 0) continue;
    const Run result = run(c);
    INFO(lab::finding(result.outcome));
    CHECK(result.outcome.ending == emulator::Outcome::Ending::finished);
    CHECK(golden::difference(*record, result.words).value_or("") == "");
    ++compared;
  }
  CHECK(compared > 0);
}

TEST_CASE("the machine stops the tensor copies that the hardware stops", "[golden]") {
  const std::optional<golden::File> file = open(endings_path);
  if (!file) return;
  for (const TensorCase& c : golden::ending_cases()) {
    INFO(c.name);
    const Record* const record = file->find(c.name);
    REQUIRE(record != nullptr);
    REQUIRE(record->words.size() == 1);
    const auto ending = static_cast<TensorEnding>(record->words[0]);
    CHECK(ending != TensorEnding::other);
    const Run result = run(c);
    const std::string finding = lab::finding(result.outcome);
    INFO(finding);
    if (is_without_model(c)) {
      CHECK(ending == TensorEnding::finished);
      CHECK(is_stopped_by(TensorEnding::illegal_instruction, finding));
    } else if (ending == TensorEnding::finished) {
      CHECK(finding == "");
      CHECK(result.outcome.ending == emulator::Outcome::Ending::finished);
    } else {
      CHECK(is_stopped_by(ending, finding));
    }
  }
}
