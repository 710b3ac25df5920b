// The copy engine: tensor copies, bulk copies, remote stores, tensor maps that change.
#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "common/emulator/tensor_map_record.h"
#include "tests/catch.h"
#include "tests/unit/emulator_lab.h"

namespace {

using emulator::encode_tensor_map;
using emulator::Outcome;
using emulator::Schedule;
using emulator::SwizzleMode;
using emulator::TensorMapBytes;
using emulator::TensorMapRecord;
using emulator::TensorType;
using lab::finding;
using lab::geometry;
using lab::kernel_text;
using lab::Lab;
using lab::mentions;

constexpr std::array<Schedule, 3> schedules{Schedule::fair, Schedule::random,
                                            Schedule::adversarial};

/// A row-major matrix of 32-bit elements, in boxes.
TensorMapRecord matrix(const void* address, std::uint64_t rows, std::uint64_t columns,
                       std::uint32_t box_rows, std::uint32_t box_columns,
                       SwizzleMode swizzle = SwizzleMode::none) {
  TensorMapRecord map;
  map.type = TensorType::u32;
  map.rank = 2;
  map.address = reinterpret_cast<std::uint64_t>(address);
  map.extent = {columns, rows, 1, 1, 1};
  map.stride = {4 * columns};
  map.box = {box_columns, box_rows, 1, 1, 1};
  map.swizzle = swizzle;
  return map;
}

/// A tensor map in device memory.
std::byte* upload(Lab& machine, const TensorMapRecord& record) {
  auto* const memory = machine.array<std::byte>(emulator::tensor_map_bytes);
  const TensorMapBytes bytes = encode_tensor_map(record);
  std::copy(bytes.begin(), bytes.end(), memory);
  return memory;
}

/// Shared memory `tile`, an mbarrier `full` for one arrival in %r1, the tile's address in %r2.
/// Thread 0 goes on in `body`, the others to END.
std::string with_barrier(const std::string& body, int tile_bytes) {
  return ".shared .align 1024 .b8 tile[" + std::to_string(tile_bytes) + R"(];
    .shared .align 8 .b64 full;
    mov.u32 %r1, full;
    mov.u32 %r2, tile;
    setp.ne.u32 %p9, %tid, 0;
    @%p9 bra END;
    mbarrier.init.shared::cta.b64 [%r1], 1;
    fence.mbarrier_init.release.cluster;
)" + body +
         "\nEND:";
}

const std::string wait_full = R"(
  WAIT:
    mbarrier.try_wait.parity.shared::cta.b64 %p8, [%r1], 0;
    @!%p8 bra WAIT;
)";

std::string expect(int bytes) {
  return "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], " + std::to_string(bytes) + ";\n";
}

}  // namespace

TEST_CASE("a box goes to shared memory and back", "[emulator]") {
  constexpr int rows = 20, columns = 40, box_rows = 8, box_columns = 32;
  const std::string body = with_barrier(expect(4 * box_rows * box_columns) + R"(
    mov.b32 %r3, 16;
    mov.b32 %r4, 15;
    cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r2], [%from, {%r3, %r4}], [%r1];
)" + wait_full + R"(
    cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%to, {%r3, %r4}], [%r2];
    cp.async.bulk.commit_group;
    cp.async.bulk.wait_group 0;)",
                                        4 * box_rows * box_columns);
  for (const Schedule schedule : schedules) {
    for (const SwizzleMode swizzle : {SwizzleMode::none, SwizzleMode::b128}) {
      Lab machine({.schedule = schedule});
      auto* const a = machine.array<std::uint32_t>(rows * columns);
      auto* const b = machine.array<std::uint32_t>(rows * columns, 7u);
      for (std::uint32_t i = 0; i < rows * columns; ++i) a[i] = i + 1000;
      const auto* const from =
          upload(machine, matrix(a, rows, columns, box_rows, box_columns, swizzle));
      const auto* const to =
          upload(machine, matrix(b, rows, columns, box_rows, box_columns, swizzle));
      REQUIRE(finding(machine.launch(kernel_text({"from", "to"}, body), geometry(1, 32), from,
                                     to)) == "");
      // The box overhangs the matrix at the right and below.
      for (int r = 0; r < rows; ++r) {
        for (int c = 0; c < columns; ++c) {
          REQUIRE(b[r * columns + c] == (r >= 15 && c >= 16 ? a[r * columns + c] : 7));
        }
      }
    }
  }
}

TEST_CASE("what overhangs a tensor arrives as zeros, and the bytes count", "[emulator]") {
  const std::string body = with_barrier(expect(4 * 4 * 8) + R"(
    mov.b32 %r3, -4;
    mov.b32 %r4, 2;
    cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r2], [%map, {%r3, %r4}], [%r1];
)" + wait_full + R"(
    mov.u32 %r5, 0;
  COPY:
    add.u32 %r6, %r2, %r5;
    ld.shared.u32 %r7, [%r6];
    cvt.u64.u32 %rd1, %r5;
    add.s64 %rd1, %rd1, %out;
    st.global.u32 [%rd1], %r7;
    add.u32 %r5, %r5, 4;
    setp.lt.u32 %p1, %r5, 128;
    @%p1 bra COPY;)",
                                        128);
  Lab machine;
  auto* const a = machine.array<std::uint32_t>(5 * 4, 3u);
  auto* const out = machine.array<std::uint32_t>(32, 9u);
  const auto* const map = upload(machine, matrix(a, 5, 4, 4, 8));
  REQUIRE(finding(machine.launch(kernel_text({"map", "out"}, body), geometry(1, 1), map, out)) ==
          "");
  for (int r = 0; r < 4; ++r) {
    for (int c = 0; c < 8; ++c) {
      const bool inside = r + 2 < 5 && c - 4 >= 0 && c - 4 < 4;
      REQUIRE(out[8 * r + c] == (inside ? 3u : 0u));
    }
  }
}

TEST_CASE("one load feeds both CTAs of a cluster", "[emulator]") {
  // CTA 1 loads, both wait on their own barrier and copy their tile out.
  const std::string body = R"(
    .shared .align 128 .b8 tile[128];
    .shared .align 8 .b64 full;
    mov.u32 %r1, full;
    mov.u32 %r2, tile;
    mov.u32 %r10, %cluster_ctarank;
    setp.eq.u32 %p7, %tid, 0;
    @%p7 mbarrier.init.shared::cta.b64 [%r1], 1;
    @%p7 fence.mbarrier_init.release.cluster;
    @%p7 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], 128;
    barrier.cluster.arrive.release.aligned;
    barrier.cluster.wait.acquire.aligned;
    setp.eq.and.u32 %p6, %r10, 1, %p7;
    mov.b16 %h1, 3;
    mov.b32 %r3, 0;
    @%p6 cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster [%r2], [%map, {%r3, %r3}], [%r1], %h1;
  )" + wait_full + R"(
    shl.b32 %r4, %tid, 2;
    add.u32 %r5, %r2, %r4;
    ld.shared.u32 %r6, [%r5];
    mad.lo.u32 %r7, %r10, 32, %tid;
    mul.wide.u32 %rd1, %r7, 4;
    add.s64 %rd1, %rd1, %out;
    st.global.u32 [%rd1], %r6;
    barrier.cluster.arrive.release.aligned;
    barrier.cluster.wait.acquire.aligned;)";
  for (const Schedule schedule : schedules) {
    Lab machine({.schedule = schedule});
    auto* const a = machine.array<std::uint32_t>(32);
    for (std::uint32_t i = 0; i < 32; ++i) a[i] = 5 * i;
    auto* const out = machine.array<std::uint32_t>(64);
    const auto* const map = upload(machine, matrix(a, 4, 8, 4, 8));
    REQUIRE(finding(machine.launch(kernel_text({"map", "out"}, body), geometry(2, 32, 0, 2), map,
                                   out)) == "");
    for (std::uint32_t i = 0; i < 64; ++i) REQUIRE(out[i] == 5 * (i % 32));
  }
}

TEST_CASE("boxes of one to five dimensions", "[emulator]") {
  for (int rank = 1; rank <= 5; ++rank) {
    Lab machine;
    // Extents 4, 3, 3, 3, 3; the box takes 4, 2, 2, 2, 2 from 0, 1, 1, 1, 1 on.
    TensorMapRecord map;
    map.type = TensorType::u32;
    map.rank = rank;
    std::uint64_t elements = 1;
    int box = 1;
    std::string coordinates;
    for (int i = 0; i < rank; ++i) {
      map.extent[i] = i == 0 ? 4 : 3;
      map.box[i] = i == 0 ? 4 : 2;
      elements *= map.extent[i];
      if (i < 4) map.stride[i] = 4 * elements;
      box *= static_cast<int>(map.box[i]);
      coordinates += i == 0 ? "%r3" : ", %r4";
    }
    auto* const a = machine.array<std::uint32_t>(elements);
    for (std::uint32_t i = 0; i < elements; ++i) a[i] = i;
    auto* const out = machine.array<std::uint32_t>(box);
    map.address = reinterpret_cast<std::uint64_t>(a);
    const auto* const device_map = upload(machine, map);
    const std::string body = with_barrier(
        expect(4 * box) + "mov.b32 %r3, 0;\nmov.b32 %r4, 1;\ncp.async.bulk.tensor." +
            std::to_string(rank) +
            "d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r2], [%map, {" +
            coordinates + "}], [%r1];\n" + wait_full +
            "cp.async.bulk.global.shared::cta.bulk_group [%out], [%r2], " +
            std::to_string(4 * box) + ";\ncp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;",
        1024);
    REQUIRE(finding(machine.launch(kernel_text({"map", "out"}, body), geometry(1, 1), device_map,
                                   out)) == "");
    for (int i = 0; i < box; ++i) {
      std::uint64_t index = 0, stride = 1;
      int rest = i;
      for (int dimension = 0; dimension < rank; ++dimension) {
        const auto size = static_cast<int>(map.box[dimension]);
        index += stride * static_cast<std::uint64_t>(rest % size + (dimension == 0 ? 0 : 1));
        rest /= size;
        stride *= map.extent[dimension];
      }
      REQUIRE(out[i] == index);
    }
  }
}

TEST_CASE("bulk copies, and reductions into global memory", "[emulator]") {
  const std::string body = with_barrier(expect(64) + R"(
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r2], [%in], 64, [%r1];
)" + wait_full + R"(
    cp.async.bulk.global.shared::cta.bulk_group [%out], [%r2], 64;
    cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%out+64], [%r2], 64;
    cp.async.bulk.commit_group;
    mov.b32 %r3, 0;
    cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group [%map, {%r3, %r3}], [%r2];
    cp.async.bulk.commit_group;
    cp.async.bulk.wait_group.read 0;
    st.shared.u32 [%r2], 0;
    cp.async.bulk.wait_group 0;)",
                                        1024);
  for (const Schedule schedule : schedules) {
    Lab machine({.schedule = schedule});
    auto* const in = machine.array<float>(16);
    auto* const out = machine.array<float>(32, 0.5f);
    auto* const sums = machine.array<float>(16, 10.0f);
    for (int i = 0; i < 16; ++i) in[i] = static_cast<float>(i);
    TensorMapRecord record = matrix(sums, 4, 4, 4, 4);
    record.type = TensorType::f32;
    const auto* const map = upload(machine, record);
    REQUIRE(finding(machine.launch(kernel_text({"in", "out", "map"}, body), geometry(1, 1), in, out,
                                   map)) == "");
    for (int i = 0; i < 16; ++i) {
      REQUIRE(out[i] == static_cast<float>(i));
      REQUIRE(out[16 + i] == 0.5f + static_cast<float>(i));
      REQUIRE(sums[i] == 10.0f + static_cast<float>(i));
    }
  }
}

TEST_CASE("a box with rows shorter than its swizzle leaves what is between them alone",
          "[emulator]") {
  // 9 rows of 16 bytes, each in 128 bytes of its own: row r at place r mod 8.
  const std::string body = with_barrier(expect(9 * 16) + R"(
    mov.u32 %r5, 0;
  FILL:
    add.u32 %r6, %r2, %r5;
    st.shared.u32 [%r6], 7;
    add.u32 %r5, %r5, 4;
    setp.lt.u32 %p1, %r5, 1152;
    @%p1 bra FILL;
    fence.proxy.async;
    mov.b32 %r3, 0;
    cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r2], [%map, {%r3, %r3}], [%r1];
)" + wait_full + R"(
    cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%back, {%r3, %r3}], [%r2];
    cp.async.bulk.global.shared::cta.bulk_group [%out], [%r2], 1152;
    cp.async.bulk.commit_group;
    cp.async.bulk.wait_group 0;)",
                                        1152);
  Lab machine;
  auto* const a = machine.array<std::uint32_t>(9 * 4);
  for (std::uint32_t i = 0; i < 9 * 4; ++i) a[i] = 100 + i;
  auto* const b = machine.array<std::uint32_t>(9 * 4);
  auto* const out = machine.array<std::uint32_t>(9 * 32);
  const auto* const map = upload(machine, matrix(a, 9, 4, 9, 4, SwizzleMode::b128));
  const auto* const back = upload(machine, matrix(b, 9, 4, 9, 4, SwizzleMode::b128));
  REQUIRE(finding(machine.launch(kernel_text({"map", "back", "out"}, body), geometry(1, 32), map,
                                 back, out)) == "");
  for (std::uint32_t i = 0; i < 9 * 32; ++i) {
    const std::uint32_t row = i / 32;
    const bool in_row = i % 32 / 4 == row % 8;
    REQUIRE(out[i] == (in_row ? 100 + 4 * row + i % 4 : 7));
  }
  REQUIRE(std::equal(a, a + 36, b));

  // Memory for the bytes of the box is too little for its rows.
  const std::string too_small = R"(
    .shared .align 8 .b64 full;
    .shared .align 128 .b8 tile[144];
    mov.u32 %r1, full;
    mov.u32 %r2, tile;
    mbarrier.init.shared::cta.b64 [%r1], 1;
    mov.b32 %r3, 0;
    cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r2], [%map, {%r3, %r3}], [%r1];)";
  const std::string said =
      finding(machine.launch(kernel_text({"map"}, too_small), geometry(1, 1), map));
  REQUIRE(mentions(said, "out-of-bounds: "));
}

TEST_CASE("a store writes the rest of the last 16 bytes of a row", "[emulator]") {
  // Rows of 5 words, 8 apart: the copy writes 8, and the checks know it.
  const std::string body = with_barrier(R"(
    mov.u32 %r5, 0;
  FILL:
    add.u32 %r6, %r2, %r5;
    st.shared.u32 [%r6], 7;
    add.u32 %r5, %r5, 4;
    setp.lt.u32 %p1, %r5, 128;
    @%p1 bra FILL;
    fence.proxy.async;
    mov.b32 %r3, 0;
    cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%map, {%r3, %r3}], [%r2];
    cp.async.bulk.commit_group;
    cp.async.bulk.wait_group 0;)",
                                        128);
  Lab machine;
  auto* const a = machine.array<std::uint32_t>(3 * 8, 9u);
  TensorMapRecord record = matrix(a, 3, 5, 2, 16);
  record.stride = {32};
  const auto* const map = upload(machine, record);
  REQUIRE(finding(machine.launch(kernel_text({"map"}, body), geometry(1, 1), map)) == "");
  for (int i = 0; i < 3 * 8; ++i) REQUIRE(a[i] == (i < 2 * 8 ? 7u : 9u));

  // The last row of a tensor that ends where its memory ends has no room for them.
  auto* const tight = machine.array<std::uint32_t>(5);
  record.address = reinterpret_cast<std::uint64_t>(tight);
  record.extent[1] = 1;
  const auto* const tight_map = upload(machine, record);
  REQUIRE(mentions(finding(machine.launch(kernel_text({"map"}, body), geometry(1, 1), tight_map)),
                   "out-of-bounds: "));
}

TEST_CASE("bytes that have not landed are not there", "[emulator]") {
  const std::string body = with_barrier(expect(64) + R"(
    mov.b32 %r3, 5;
    st.shared.u32 [%r2], %r3;
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r2], [%in], 64, [%r1];
    ld.shared.u32 %r4, [%r2];
    st.global.u32 [%out], %r4;
)" + wait_full + R"(
    ld.shared.u32 %r4, [%r2];
    st.global.u32 [%out+4], %r4;)",
                                        64);
  Lab machine;
  auto* const in = machine.array<std::uint32_t>(16, 3u);
  auto* const out = machine.array<std::uint32_t>(2);
  REQUIRE(finding(machine.launch(kernel_text({"in", "out"}, body), geometry(1, 1), in, out)) == "");
  REQUIRE(out[0] == 0xFFFFFFFF);
  REQUIRE(out[1] == 3);
}

TEST_CASE("copies between CTAs, st.async and red.async", "[emulator]") {
  // Rank 0 sends 16 bytes, a word and a sum to rank 1, which counts 24 bytes.
  const std::string body = R"(
    .shared .align 16 .b8 tile[64];
    .shared .align 8 .b64 full;
    mov.u32 %r1, full;
    mov.u32 %r2, tile;
    mov.u32 %r10, %cluster_ctarank;
    setp.ne.u32 %p7, %tid, 0;
    @%p7 bra SYNC;
    mbarrier.init.shared::cta.b64 [%r1], 1;
    fence.mbarrier_init.release.cluster;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], 24;
    add.u32 %r3, %r10, 70;
    st.shared.v4.u32 [%r2], {%r3, %r3, %r3, %r3};
    st.shared.v4.u32 [%r2+16], {%r3, %r3, %r3, %r3};
    fence.proxy.async;
  SYNC:
    barrier.cluster.arrive.release.aligned;
    barrier.cluster.wait.acquire.aligned;
    setp.ne.or.u32 %p6, %r10, 0, %p7;
    @%p6 bra RECEIVE;
    mapa.shared::cluster.u32 %r4, %r2, 1;
    mapa.shared::cluster.u32 %r5, %r1, 1;
    cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r4], [%r2], 16, [%r5];
    add.u32 %r6, %r4, 16;
    st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [%r6], 1234, [%r5];
    red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [%r6+4], 6, [%r5];
  RECEIVE:
    setp.ne.or.u32 %p5, %r10, 1, %p7;
    @%p5 bra DONE;
  )" + wait_full + R"(
    ld.shared.v4.u32 {%r11, %r12, %r13, %r14}, [%r2];
    ld.shared.v2.u32 {%r15, %r16}, [%r2+16];
    st.global.v4.u32 [%out], {%r11, %r12, %r13, %r14};
    st.global.v2.u32 [%out+16], {%r15, %r16};
  DONE:
    barrier.cluster.arrive.release.aligned;
    barrier.cluster.wait.acquire.aligned;)";
  for (const Schedule schedule : schedules) {
    Lab machine({.schedule = schedule});
    auto* const out = machine.array<std::uint32_t>(8);
    REQUIRE(finding(machine.launch(kernel_text({"out"}, body), geometry(2, 32, 0, 2), out)) == "");
    REQUIRE(std::vector<std::uint32_t>(out, out + 6) ==
            std::vector<std::uint32_t>{70, 70, 70, 70, 1234, 77});
  }
}

TEST_CASE("tensor maps can be changed on the device", "[emulator]") {
  // The map of `a` is copied to shared memory, made to describe `b`, published and used.
  const std::string body = R"(
    .shared .align 128 .b8 map[128];
    .shared .align 128 .b8 tile[128];
    .shared .align 8 .b64 full;
    mov.u32 %r1, full;
    mov.u32 %r2, tile;
    mov.u32 %r3, map;
    shl.b32 %r4, %tid, 2;
    cvt.u64.u32 %rd1, %r4;
    add.s64 %rd2, %rd1, %from;
    ld.global.u32 %r5, [%rd2];
    add.u32 %r6, %r3, %r4;
    st.shared.u32 [%r6], %r5;
    bar.warp.sync 0xffffffff;
    setp.eq.u32 %p1, %tid, 0;
    @!%p1 bra PUBLISH;
    mbarrier.init.shared::cta.b64 [%r1], 1;
    tensormap.replace.tile.global_address.shared::cta.b1024.b64 [%r3], %b;
    mov.b32 %r7, 2;
    tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [%r3], 1, %r7;
    mov.u64 %rd3, 64;
    tensormap.replace.tile.global_stride.shared::cta.b1024.b64 [%r3], 0, %rd3;
  PUBLISH:
    bar.warp.sync 0xffffffff;
    tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%to], [%r3], 128;
    fence.proxy.tensormap::generic.acquire.gpu [%to], 128;
    @!%p1 bra END;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], 128;
    mov.b32 %r8, 0;
    prefetch.tensormap [%to];
    cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r2], [%to, {%r8, %r8}], [%r1];
  )" + wait_full + R"(
    ld.shared.u32 %r9, [%r2];
    ld.shared.u32 %r10, [%r2+32];
    ld.shared.u32 %r11, [%r2+64];
    st.global.u32 [%out], %r9;
    st.global.u32 [%out+4], %r10;
    st.global.u32 [%out+8], %r11;
  END:)";
  Lab machine;
  auto* const a = machine.array<std::uint32_t>(32, 1u);
  auto* const b = machine.array<std::uint32_t>(64);
  for (std::uint32_t i = 0; i < 64; ++i) b[i] = 500 + i;
  auto* const out = machine.array<std::uint32_t>(3);
  const auto* const from = upload(machine, matrix(a, 4, 8, 4, 8));
  auto* const to = machine.array<std::byte>(128);
  REQUIRE(finding(machine.launch(kernel_text({"from", "to", "b", "out"}, body), geometry(1, 32),
                                 from, to, b, out)) == "");
  // The rows are 64 bytes apart now, and there are only two.
  REQUIRE(out[0] == 500);
  REQUIRE(out[1] == 516);
  REQUIRE(out[2] == 0);
}

TEST_CASE("faults of copies", "[emulator]") {
  const auto said = [](const std::string& body, bool spoil_map = false) {
    Lab machine;
    auto* const a = machine.array<std::uint32_t>(32);
    auto* const map = upload(machine, matrix(a, 4, 8, 4, 8));
    if (spoil_map) std::fill(map, map + 8, std::byte{0});
    return finding(machine.launch(kernel_text({"map", "a"}, with_barrier(body, 256)),
                                  geometry(1, 32), map, a));
  };
  const std::string load_2d =
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes ";
  const std::string zero = "mov.b32 %r3, 0;\n";
  REQUIRE(mentions(said(zero + load_2d + "[%r2+64], [%map, {%r3, %r3}], [%r1];"), "misaligned: "));
  REQUIRE(
      mentions(said(zero + load_2d + "[%r2+256], [%map, {%r3, %r3}], [%r1];"), "out-of-bounds: "));
  REQUIRE(mentions(said(zero + load_2d + "[%r2], [%a, {%r3, %r3}], [%r1];"), "bad-tensor-map: "));
  REQUIRE(mentions(said(zero + load_2d + "[%r2], [%map, {%r3, %r3}], [%r1];", true),
                   "bad-tensor-map: "));
  REQUIRE(
      mentions(said(zero + "cp.async.bulk.tensor.1d.shared::cluster.global.tile.mbarrier::complete_"
                           "tx::bytes [%r2], [%map, {%r3}], [%r1];"),
               "2 dimensions"));
  REQUIRE(mentions(said(zero + load_2d + "[%r2], [%map, {%r3, %r3}], [%r1+8];"),
                   "barrier-not-initialized: "));
  REQUIRE(mentions(
      said("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r2], [%a], 24, "
           "[%r1];"),
      "multiple of 16"));
  REQUIRE(mentions(
      said("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r2], [%a+64], "
           "128, [%r1];"),
      "out-of-bounds: "));
  REQUIRE(mentions(
      said(zero + "mov.b16 %h1, 2;\ncp.async.bulk.tensor.2d.shared::cluster.global.tile."
                  "mbarrier::complete_tx::bytes.multicast::cluster [%r2], [%map, {%r3, %r3}], "
                  "[%r1], %h1;"),
      "CTA mask"));
  // The map says that the tensor is larger than its memory.
  Lab machine;
  auto* const a = machine.array<std::uint32_t>(16);
  auto* const map = upload(machine, matrix(a, 4, 8, 4, 8));
  REQUIRE(mentions(
      finding(machine.launch(
          kernel_text({"map"},
                      with_barrier(zero + load_2d + "[%r2], [%map, {%r3, %r3}], [%r1];", 256)),
          geometry(1, 32), map)),
      "out-of-bounds: "));
}
