// wgmma as the machine runs it: warpgroups, groups, descriptors; and the lessons' own kernels. Its
// arithmetic is tested in wgmma_math_test.cc.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <map>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "common/emulator/formats.h"
#include "common/emulator/fragments.h"
#include "common/emulator/tensor_map_record.h"
#include "common/gemm/timeline.h"
#include "tests/catch.h"
#include "tests/unit/emulator_lab.h"

namespace {

using emulator::MachineOptions;
using emulator::Outcome;
using emulator::Schedule;
using lab::finding;
using lab::geometry;
using lab::kernel_text;
using lab::Lab;
using lab::mentions;

constexpr std::array<Schedule, 3> schedules{Schedule::fair, Schedule::random,
                                            Schedule::adversarial};

/// A (64 x 16) and B (8 x 16) in bf16, K-major without swizzle: 8 x 8 blocks of 128 bytes, the two
/// of K next to each other. Thread 0 copies them to shared memory; then %rd10 and %rd11 are their
/// descriptors, and %r10 to %r13 the accumulators.
std::string with_operands(const std::string& body) {
  return R"(
    .shared .align 1024 .b8 a_tile[2048];
    .shared .align 1024 .b8 b_tile[256];
    .shared .align 8 .b64 full;
    mov.u32 %r1, full;
    mov.u32 %r2, a_tile;
    mov.u32 %r3, b_tile;
    setp.ne.u32 %p9, %tid, 0;
    @%p9 bra LOADED;
    mbarrier.init.shared::cta.b64 [%r1], 1;
    fence.mbarrier_init.release.cluster;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], 2304;
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r2], [%a], 2048, [%r1];
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r3], [%b], 256, [%r1];
  LOADED:
    bar.sync 0;
  WAIT:
    mbarrier.try_wait.parity.shared::cta.b64 %p8, [%r1], 0;
    @!%p8 bra WAIT;
    cvt.u64.u32 %rd1, %r2;
    cvt.u64.u32 %rd2, %r3;
    shr.u64 %rd1, %rd1, 4;
    shr.u64 %rd2, %rd2, 4;
    and.b64 %rd1, %rd1, 0x3fff;
    and.b64 %rd2, %rd2, 0x3fff;
    or.b64 %rd10, %rd1, 0x1000080000;
    or.b64 %rd11, %rd2, 0x1000080000;
    setp.ne.u32 %p1, %tid, 99999;
    setp.eq.u32 %p2, %tid, 99999;
)" + body +
         R"(
    mul.wide.u32 %rd0, %tid, 16;
    add.s64 %rd0, %rd0, %out;
    st.global.v4.u32 [%rd0], {%r10, %r11, %r12, %r13};)";
}

struct Operands {
  std::vector<float> a = std::vector<float>(64 * 16);
  std::vector<float> b = std::vector<float>(8 * 16);

  Operands() {
    for (std::size_t i = 0; i < a.size(); ++i) a[i] = static_cast<float>((7 * i) % 11) - 5;
    for (std::size_t i = 0; i < b.size(); ++i) b[i] = static_cast<float>((5 * i) % 13) - 6;
  }
  float product(int row, int column) const {
    float sum = 0;
    for (int k = 0; k < 16; ++k) sum += a[16 * row + k] * b[16 * column + k];
    return sum;
  }
};

/// Where element (row, k) lies in a tile of 8 x 8 blocks.
int place(int row, int k) {
  return row / 8 * 128 + k / 8 * 64 + row % 8 * 8 + k % 8;
}

std::uint16_t* upload(Lab& machine, const std::vector<float>& matrix) {
  auto* const memory = machine.array<std::uint16_t>(matrix.size());
  for (int i = 0; i < static_cast<int>(matrix.size()); ++i) {
    memory[place(i / 16, i % 16)] = emulator::f32_to_bf16(matrix[i]);
  }
  return memory;
}

/// Checks that the accumulators are `factor` times the product.
void check_product(const Operands& operands, const float* out, float factor) {
  for (int thread = 0; thread < 128; ++thread) {
    for (int i = 0; i < 4; ++i) {
      const auto [row, column] = emulator::accumulator_element(thread, i);
      REQUIRE(out[4 * thread + i] == factor * operands.product(row, column));
    }
  }
}

const std::string multiply =
    "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%r10, %r11, %r12, %r13}, %rd10, %rd11, ";

Outcome run(Lab& machine, const Operands& operands, const std::string& body, float* out) {
  const auto* const a = upload(machine, operands.a);
  const auto* const b = upload(machine, operands.b);
  return machine.launch(kernel_text({"a", "b", "out"}, with_operands(body)), geometry(1, 128), a, b,
                        out);
}

std::string finding_of(const std::string& body) {
  Lab machine;
  auto* const out = machine.array<float>(4 * 128);
  return finding(run(machine, Operands(), body, out));
}

}  // namespace

TEST_CASE("wgmma multiplies tiles in shared memory", "[emulator]") {
  const Operands operands;
  for (const Schedule schedule : schedules) {
    Lab machine({.schedule = schedule});
    auto* const out = machine.array<float>(4 * 128);
    // The first has scale-d false, so what the accumulators held does not matter.
    const std::string body = "wgmma.fence.sync.aligned;\n" + multiply + "%p2, 1, 1, 0, 0;\n" +
                             multiply + "%p1, 1, 1, 0, 0;\nwgmma.commit_group.sync.aligned;\n" +
                             multiply + "%p1, -1, 1, 0, 0;\n" + multiply +
                             "%p1, 1, 1, 0, 0;\nwgmma.commit_group.sync.aligned;\n"
                             "wgmma.wait_group.sync.aligned 1;\nwgmma.wait_group.sync.aligned 0;";
    REQUIRE(finding(run(machine, operands, body, out)) == "");
    check_product(operands, out, 2);
  }
}

TEST_CASE("wgmma takes A from registers", "[emulator]") {
  const Operands operands;
  Lab machine;
  auto* const out = machine.array<float>(4 * 128);
  auto* const fragments = machine.array<std::uint16_t>(8 * 128);
  for (int thread = 0; thread < 128; ++thread) {
    for (int i = 0; i < 8; ++i) {
      const auto [row, k] = emulator::a_element(thread, i, 16);
      fragments[8 * thread + i] = emulator::f32_to_bf16(operands.a[16 * row + k]);
    }
  }
  const std::string body = R"(
    mul.wide.u32 %rd5, %tid, 16;
    add.s64 %rd5, %rd5, %fragments;
    ld.global.v4.u32 {%r20, %r21, %r22, %r23}, [%rd5];
    wgmma.fence.sync.aligned;
    wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%r10, %r11, %r12, %r13}, {%r20, %r21, %r22, %r23}, %rd11, %p2, 1, 1, 0;
    wgmma.commit_group.sync.aligned;
    wgmma.wait_group.sync.aligned 0;)";
  const auto* const a = upload(machine, operands.a);
  const auto* const b = upload(machine, operands.b);
  REQUIRE(finding(machine.launch(kernel_text({"a", "b", "out", "fragments"}, with_operands(body)),
                                 geometry(1, 128), a, b, out, fragments)) == "");
  check_product(operands, out, 1);
}

TEST_CASE("the four warps of a warpgroup must agree", "[emulator]") {
  const std::string tail = "wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;";
  const std::string multiply_all = multiply + "%p2, 1, 1, 0, 0;\n";
  // Warp 3 does not come.
  const std::string missing = finding_of("setp.ge.u32 %p3, %tid, 96;\n@%p3 bra SKIP;\n" +
                                         multiply_all + tail + "\nSKIP:\nbar.sync 0;");
  REQUIRE(mentions(missing, "deadlock: "));
  REQUIRE(mentions(missing, "only 3 of the 4 warps"));
  REQUIRE(mentions(finding_of("setp.ge.u32 %p3, %tid, 96;\n@%p3 exit;\n" + multiply_all + tail),
                   "divergent-aligned: "));
  // Warp 3 names another tile.
  REQUIRE(mentions(finding_of("setp.ge.u32 %p3, %tid, 96;\n@%p3 add.s64 %rd10, %rd10, 1;\n" +
                              multiply_all + tail),
                   "bad-descriptor: "));
  // So does one lane.
  REQUIRE(mentions(finding_of("setp.eq.u32 %p3, %tid, 5;\n@%p3 add.s64 %rd10, %rd10, 1;\n" +
                              multiply_all + tail),
                   "differs between the lanes"));
  // Beyond the CTA's memory.
  REQUIRE(mentions(finding_of("add.s64 %rd10, %rd10, 0x2000;\n" + multiply_all + tail),
                   "bad-descriptor: "));
}

TEST_CASE("forms of wgmma that do not exist are refused", "[emulator]") {
  const auto refused = [](const std::string& shape, const std::string& rest) {
    return lab::refusal("wgmma.mma_async.sync.aligned." + shape +
                        " {%r10, %r11, %r12, %r13}, %rd10, %rd11, " + rest + ";");
  };
  REQUIRE(refused("m64n8k16.f32.bf16.bf16", "%p1, 1, 1, 0, 0") == "");
  REQUIRE(refused("m64n8k32.f32.e4m3.e5m2", "%p1, 1, -1") == "");
  REQUIRE(refused("m64n8k32.s32.s8.u8", "%p1") == "");
  REQUIRE(refused("m64n8k8.f32.tf32.tf32", "%p1, 1, 1") == "");
  REQUIRE(mentions(refused("m64n8k16.f32.tf32.tf32", "%p1, 1, 1"), "K is 8"));
  REQUIRE(mentions(refused("m64n12k16.f32.bf16.bf16", "%p1, 1, 1, 0, 0"), "no form of wgmma"));
  REQUIRE(mentions(refused("m64n8k16.f16.bf16.bf16", "%p1, 1, 1, 0, 0"), "no form of wgmma"));
  REQUIRE(mentions(refused("m64n8k16.f32.bf16.bf16", "%p1, 2, 1, 0, 0"), "takes 1 or -1"));
  REQUIRE(mentions(refused("m64n8k16.f32.bf16.bf16", "%p1, 1, 1"), "missing"));
  REQUIRE(mentions(refused("m64n16k16.f32.bf16.bf16", "%p1, 1, 1, 0, 0"), "lists of 8 registers"));
  REQUIRE(mentions(refused("n8k16.f32.bf16.bf16", "%p1, 1, 1, 0, 0"), "m64nNkK"));
}

// ---- The lessons. `make lessons` leaves their PTX in build/.

namespace {

/// gemm::Problem as the lessons' kernels take it.
struct Problem {
  int m, n, k;
  float alpha, beta;
  const void *a, *b, *c;
  void* d;
  std::int64_t lda, ldb, ldc, ldd;
};

/// A lesson's kernel, and how it is launched.
struct LessonKernel {
  std::string ptx;
  std::string name;  ///< a part of the mangled name
  int tile_m, tile_n, threads;
  std::uint32_t shared_bytes;
  bool takes_maps;
  bool can_be_traced = false;  ///< its last parameter is a gemm::Timeline
};

struct Shape {
  int m, n, k;
};

emulator::TensorMapRecord operand_map(const std::uint16_t* matrix, int rows, int k, int pitch,
                                      int box_rows) {
  emulator::TensorMapRecord map;
  map.type = emulator::TensorType::bf16;
  map.rank = 2;
  map.address = reinterpret_cast<std::uint64_t>(matrix);
  map.extent = {static_cast<std::uint64_t>(std::max(k, 1)), static_cast<std::uint64_t>(rows), 1, 1,
                1};
  map.stride = {2 * static_cast<std::uint64_t>(pitch)};
  map.box = {64, static_cast<std::uint32_t>(box_rows), 1, 1, 1};
  map.swizzle = emulator::SwizzleMode::b128;
  return map;
}

const emulator::Module& lesson_module(const std::string& path) {
  static std::map<std::string, emulator::Module> modules;
  const auto [entry, is_new] = modules.try_emplace(path);
  if (is_new) {
    std::ifstream file(path);
    INFO(path << ": `make lessons` writes it");
    REQUIRE(file);
    std::ostringstream text;
    text << file.rdbuf();
    entry->second = emulator::parse(text.str());
  }
  return entry->second;
}

/// Runs a lesson's kernel and holds D against a product in double, element by element.
void check_lesson(const LessonKernel& lesson, const Shape& shape, const MachineOptions& options) {
  const emulator::Module& module = lesson_module(lesson.ptx);
  const emulator::Function* kernel = nullptr;
  for (const emulator::Function& function : module.functions) {
    if (function.is_entry && mentions(function.name, lesson.name)) kernel = &function;
  }
  REQUIRE(kernel != nullptr);

  Lab lab(options);
  emulator::Machine& machine = lab.machine();
  const auto [m, n, k] = shape;
  const int pitch = (k + 7) / 8 * 8, pitch_d = (n + 7) / 8 * 8;
  auto* const a = lab.array<std::uint16_t>(static_cast<std::size_t>(m) * pitch);
  auto* const b = lab.array<std::uint16_t>(static_cast<std::size_t>(n) * pitch);
  auto* const d = lab.array<std::uint16_t>(static_cast<std::size_t>(m) * pitch_d, 0xFFFF);
  std::mt19937 random(7);
  const auto fill = [&](std::uint16_t* matrix, int rows) {
    for (int i = 0; i < rows * pitch; ++i) {
      matrix[i] = emulator::f32_to_bf16(static_cast<float>(random() % 2001) / 1000 - 1);
    }
  };
  fill(a, m);
  fill(b, n);

  const Problem problem{m, n, k, 1, 0, a, b, nullptr, d, pitch, pitch, pitch_d, pitch_d};
  const auto map_a = encode_tensor_map(operand_map(a, m, k, pitch, lesson.tile_m));
  const auto map_b = encode_tensor_map(operand_map(b, n, k, pitch, lesson.tile_n));
  std::vector<std::span<const std::byte>> arguments;
  if (lesson.takes_maps) arguments = {map_a, map_b};
  arguments.push_back(std::as_bytes(std::span(&problem, 1)));
  const gemm::Timeline untraced{};
  if (lesson.can_be_traced) arguments.push_back(std::as_bytes(std::span(&untraced, 1)));
  const auto tiles = static_cast<std::uint32_t>((m + lesson.tile_m - 1) / lesson.tile_m *
                                                ((n + lesson.tile_n - 1) / lesson.tile_n));
  const Outcome outcome = machine.launch(
      module, *kernel,
      geometry(tiles, static_cast<std::uint32_t>(lesson.threads), lesson.shared_bytes),
      emulator::pack_parameters(*kernel, arguments));
  INFO(lesson.name << " at " << m << " x " << n << " x " << k << ", schedule "
                   << static_cast<int>(options.schedule) << ", seed " << options.seed);
  REQUIRE(finding(outcome) == "");
  for (int i = 0; i < m; ++i) {
    for (int j = 0; j < n; ++j) {
      double sum = 0, magnitude = 0;
      for (int x = 0; x < k; ++x) {
        const double product = static_cast<double>(emulator::bf16_to_f32(a[i * pitch + x])) *
                               emulator::bf16_to_f32(b[j * pitch + x]);
        sum += product;
        magnitude += std::fabs(product);
      }
      const double got = emulator::bf16_to_f32(d[i * pitch_d + j]);
      // One rounding to bf16, and fp32 sums in any order.
      const double bound = std::fabs(sum) * 0x1p-8 + magnitude * 0x1p-24 * (k + 1);
      INFO("D(" << i << ", " << j << ") is " << got << ", should be " << sum);
      REQUIRE(std::fabs(got - sum) <= bound);
    }
  }
}

const LessonKernel naive{
    "build/lesson01.ptx", "gemm_naiveILNS_4WalkE2ELi4ELNS_5BreakE0E", 32, 8, 256, 0, false};
const LessonKernel tensor_cores{
    "build/lesson02.ptx", "gemm_wgmmaILi128ELi128ELNS_5BreakE0E", 128, 128, 128, 256 * 128, false};
const LessonKernel small_tma{"build/lesson03.ptx",
                             "gemm_tmaILi64ELi64ELNS_5BreakE0ELb0E",
                             64,
                             64,
                             128,
                             128 * 128,
                             true,
                             true};
const LessonKernel tma{"build/lesson03.ptx",
                       "gemm_tmaILi128ELi128ELNS_5BreakE0ELb0E",
                       128,
                       128,
                       128,
                       256 * 128,
                       true,
                       true};

}  // namespace

TEST_CASE("the lessons' kernels compute the product", "[emulator]") {
  for (const LessonKernel& lesson : {naive, tensor_cores, small_tma, tma}) {
    for (const Shape& shape : {Shape{128, 128, 128}, Shape{129, 136, 72}, Shape{1, 8, 8},
                               Shape{7, 9, 65}, Shape{64, 64, 0}}) {
      check_lesson(lesson, shape, {});
    }
  }
}

TEST_CASE("the lessons' kernels compute the product under every schedule", "[emulator]") {
  for (const LessonKernel& lesson : {tensor_cores, small_tma}) {
    for (std::uint64_t seed = 1; seed <= 5; ++seed) {
      check_lesson(lesson, {130, 72, 136}, {.schedule = Schedule::random, .seed = seed});
    }
    check_lesson(lesson, {130, 72, 136}, {.schedule = Schedule::adversarial});
  }
}
