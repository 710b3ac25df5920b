// Small kernels in PTX, each right as it stands and broken by one edit: for the rules that no
// kernel in broken_test.cc is about.

#include <string>

#include "tests/catch.h"
#include "tests/emulator/ptx_edits.h"

namespace {

using ptx_edits::check;
using ptx_edits::Kernel;

/// Shared memory and addresses: %r1 `full`, %r2 `empty`, %r3 `tile` of 512 bytes. %p0 is true in
/// thread 0, which has initialized the barriers, each for one arrival. %r9 is 4 * %tid, %r10 this
/// thread's word of the tile.
const std::string begin = R"(
    .shared .align 128 .b8 tile[512];
    .shared .align 8 .b64 full;
    .shared .align 8 .b64 empty;
    mov.u32 %r1, full;
    mov.u32 %r2, empty;
    mov.u32 %r3, tile;
    shl.b32 %r9, %tid, 2;
    add.u32 %r10, %r3, %r9;
    setp.eq.u32 %p0, %tid, 0;
    @!%p0 bra BEGUN;
    mbarrier.init.shared::cta.b64 [%r1], 1;
    mbarrier.init.shared::cta.b64 [%r2], 1;
    fence.mbarrier_init.release.cluster;
  BEGUN:
    bar.sync 0;
)";

/// Waits for phase `parity` of the barrier in `address`.
std::string wait(const std::string& name, const std::string& address, int parity) {
  return name + ":\n    mbarrier.try_wait.parity.shared::cta.b64 %p9, [" + address + "], " +
         std::to_string(parity) + ";\n    @!%p9 bra " + name + ";\n";
}

/// All wait until thread 0's copy of 512 bytes has landed in the tile.
const std::string load = R"(
    @!%p0 bra LOADED;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], 512;
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r3], [%in], 512, [%r1];
  LOADED:
)" + wait("FULL", "%r1", 0);

/// All write the first 256 bytes of the tile, 64 threads a word each; thread 0 sends them to `out`.
const std::string send = R"(
    st.shared.u32 [%r10], %tid;
    fence.proxy.async.shared::cta;
    bar.sync 0;
    @!%p0 bra SENT;
    cp.async.bulk.global.shared::cta.bulk_group [%out], [%r3], 256;
    cp.async.bulk.commit_group;
    cp.async.bulk.wait_group 0;
    ld.global.u32 %r11, [%out];
  SENT:
)";

constexpr const char* init = "mbarrier.init";
constexpr const char* copy = "cp.async.bulk";

}  // namespace

TEST_CASE("Broken PTX: how an mbarrier is made and fed", "[broken]") {
  const Kernel kernel{begin + load};
  check(kernel,
        {{"[%r2], 1;", "[%r2], 0;", "mbarrier-count", "initializes empty for 0 arrivals", init},
         {"[%r2], 1;", "[%r1], 1;", "barrier-overwritten", "initializes `full` again", init},
         {"_, [%r1], 512;", "_, [%r1], 1048576;", "expect-tx-range", "full expects to 1048576",
          "mbarrier.arrive.expect_tx"},
         {"_, [%r1], 512;", "_, [%r1], 480;", "unbalanced-expect-tx",
          "fewer bytes for `full` than come: in the end phase 0 has 32 bytes",
          "mbarrier.arrive.expect_tx", "deadlock"},
         {"[%in], 512,", "[%in], 496,", "unbalanced-expect-tx",
          "more bytes for `full` than come: in the end phase 0 still lacks 16 bytes",
          "mbarrier.arrive.expect_tx", "deadlock"}});
}

TEST_CASE("Broken PTX: addresses", "[broken]") {
  // Each thread writes a word of the tile and one of `out`, thread 0 another of the tile.
  const Kernel kernel{begin + R"(
    st.shared.u32 [%r10], %tid;
    cvt.u64.u32 %rd1, %r9;
    add.s64 %rd2, %out, %rd1;
    st.global.u32 [%rd2], %tid;
    @!%p0 bra DONE;
    st.shared.u32 [%r3+256], %tid;
    ld.shared.u32 %r4, [%r3+256];
  DONE:)"};
  check(kernel, {{"st.shared.u32 [%r10]", "st.shared.u32 [%r10+2]", "misaligned",
                  "is not a multiple of 4", "st.shared.u32"},
                 {"st.shared.u32 [%r3+256]", "st.shared.u32 [%r2]", "barrier-overwritten",
                  "live mbarrier empty", "st.shared.u32"},
                 {"add.s64 %rd2, %out,", "add.s64 %rd2, %rd1,", "out-of-bounds", "null pointer",
                  "st.global.u32"},
                 {"ld.shared.u32 %r4, [%r3+256]", "ld.shared.u32 %r4, [%r3+260]", "unwritten-read",
                  "`tile` + 260, where nothing has been written", "ld.shared.u32"}});
}

TEST_CASE("Broken PTX: phases of an mbarrier", "[broken]") {
  // Warp 1 fills, warp 0 empties, three times. The sleep makes it come out right in time, but time
  // is no order.
  const std::string sleep = "nanosleep.u32 100000;\n";
  std::string body = begin +
                     "setp.lt.u32 %p1, %tid, 32;\n@%p1 bra CONSUMER;\n"
                     "setp.ne.u32 %p2, %tid, 32;\n@%p2 bra DONE;\n";
  for (const int round : {0, 1, 2}) {
    body += wait("EMPTY" + std::to_string(round), "%r2", (round + 1) % 2) + sleep;
    body += "mbarrier.arrive.shared::cta.b64 _, [%r1];\n";
  }
  body += "bra DONE;\nCONSUMER:\n@!%p0 bra DONE;\n";
  for (const int round : {0, 1, 2}) {
    body += wait("FULL" + std::to_string(round), "%r1", round % 2);
    body += "mbarrier.arrive.shared::cta.b64 _, [%r2];\n";
  }
  body += "DONE:\n";
  check({body}, {{wait("EMPTY1", "%r2", 0), "", "phase-aba", "waits for phase 0 of `full`",
                  "mbarrier.try_wait.parity"},
                 {wait("FULL1", "%r1", 1), "nanosleep.u32 1000000;\n", "phase-aba",
                  "finds phase 2 complete, without knowing", "mbarrier.try_wait.parity"}});
}

TEST_CASE("Broken PTX: threads at a named barrier", "[broken]") {
  const Kernel kernel{R"(
    mov.u32 %r1, 96;
    setp.lt.u32 %p1, %tid, 64;
    @%p1 bra OTHERS;
    bar.sync 3, 96;
    bra DONE;
  OTHERS:
    bar.sync 3, %r1;
  DONE:)",
                      96};
  check(kernel,
        {{"bar.sync 3, 96;", "bar.sync 3, 128;", "named-barrier-count",
          "all must name the same count", "bar.sync"},
         {"%r1, 96;", "%r1, 80;", "named-barrier-count", "must be a multiple of 32", "bar.sync"},
         {"bar.sync 3, %r1;", "mov.u32 %r2, 16;\n    bar.sync %r2, %r1;", "named-barrier-count",
          "names barrier 16", "bar.sync"}});
}

TEST_CASE("Broken PTX: bulk stores", "[broken]") {
  check({begin + send},
        {{"wait_group 0", "wait_group.read 0", "store-not-complete", "without .read",
          "ld.global.u32"},
         {"[%out], [%r3], 256", "[%out], [%r3], 272", "store-of-unwritten", "`tile` + 256", copy},
         {"[%out], [%r3], 256", "[%out], [%r3], 250", "misaligned", "copies 250 bytes", copy}});
}

TEST_CASE("Broken PTX: a copy overwrites what threads have read", "[broken]") {
  const Kernel kernel{begin + load + R"(
    ld.shared.u32 %r4, [%r10];
    fence.proxy.async.shared::cta;
    bar.sync 0;
    @!%p0 bra AGAIN;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], 512;
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r3], [%in], 512, [%r1];
  AGAIN:)" + wait("SECOND", "%r1", 1)};
  check(kernel, {{"fence.proxy.async.shared::cta;", "", "overwrite-without-proxy-fence",
                  "overwrites `tile` with a copy, which warp 0 of CTA 0", copy}});
}

TEST_CASE("Broken PTX: tensor maps", "[broken]") {
  // The map goes to shared memory, is made to describe `out`, published, used, and published anew.
  const std::string release =
      "    tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned "
      "[%map], [%r3], 128;\n";
  const std::string acquire = "    fence.proxy.tensormap::generic.acquire.gpu [%map], 128;\n";
  const std::string landed = wait("FULL", "%r1", 0) + "    bar.warp.sync 0xffffffff;\n";
  const Kernel kernel{begin + R"(
    .shared .align 128 .b8 box[512];
    mov.u32 %r12, box;
    cvt.u64.u32 %rd1, %r9;
    add.s64 %rd2, %rd1, %map;
    ld.global.u32 %r4, [%rd2];
    st.shared.u32 [%r10], %r4;
    bar.warp.sync 0xffffffff;
    @%p0 tensormap.replace.tile.global_address.shared::cta.b1024.b64 [%r3], %out;
    mov.b32 %r8, 0;
    bar.warp.sync 0xffffffff;
)" + release + acquire + R"(
    @!%p0 bra USED;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], 512;
    cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r12], [%map, {%r8, %r8}], [%r1];
  USED:
)" + landed + release,
                      32};
  constexpr const char* use = "cp.async.bulk.tensor.2d";
  check(kernel,
        {{acquire, "", "tensor-map-fence", "no fence.proxy.tensormap::generic.acquire", use},
         {".2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r12], [%map, {%r8, %r8}]",
          ".3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r12], [%map, {%r8, %r8, "
          "%r8}]",
          "bad-tensor-map", "has 3 coordinates, but its tensor map describes a tensor of 2",
          "cp.async.bulk.tensor.3d"},
         {landed + release, release + landed, "tensor-map-in-use",
          "a tensor map that the copy at PTX line", "tensormap.cp_fenceproxy"}});
}

TEST_CASE("Broken PTX: operands of wgmma", "[broken]") {
  // 64 x 8 x 16 in bf16, without swizzle: A is 2 KB, B 256 bytes; all zeros, written by threads.
  const Kernel kernel{R"(
    .shared .align 128 .b8 a_tile[2048];
    .shared .align 128 .b8 b_tile[256];
    mov.u32 %r1, a_tile;
    mov.u32 %r2, b_tile;
    mov.b32 %r8, 0;
    shl.b32 %r9, %tid, 4;
    add.u32 %r3, %r1, %r9;
    st.shared.v4.u32 [%r3], {%r8, %r8, %r8, %r8};
    setp.lt.u32 %p1, %tid, 16;
    add.u32 %r4, %r2, %r9;
    @%p1 st.shared.v4.u32 [%r4], {%r8, %r8, %r8, %r8};
    fence.proxy.async.shared::cta;
    bar.sync 0;
    cvt.u64.u32 %rd1, %r1;
    cvt.u64.u32 %rd2, %r2;
    shr.u64 %rd1, %rd1, 4;
    shr.u64 %rd2, %rd2, 4;
    or.b64 %rd1, %rd1, 0x1000080000;
    or.b64 %rd2, %rd2, 0x1000080000;
    cvt.u64.u32 %rd3, %tid;
    setp.ne.u32 %p2, %tid, 128;
    mov.b32 %r10, 0; mov.b32 %r11, 0; mov.b32 %r12, 0; mov.b32 %r13, 0;
    wgmma.fence.sync.aligned;
    wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%r10, %r11, %r12, %r13}, %rd1, %rd2, %p2, 1, 1, 0, 0;
    wgmma.commit_group.sync.aligned;
    wgmma.wait_group.sync.aligned 0;)",
                      128};
  constexpr const char* multiply = "wgmma.mma_async";
  check(kernel,
        {{"or.b64 %rd2, %rd2, 0x1000080000;\n    cvt.u64.u32 %rd3, %tid;",
          "cvt.u64.u32 %rd3, %tid;\n    or.b64 %rd2, %rd2, 0x1000080000;\n"
          "    add.u64 %rd2, %rd2, %rd3;",
          "bad-descriptor", "differs between the lanes", multiply},
         {"setp.ne.u32 %p2, %tid, 128;", "setp.ne.u32 %p2, %tid, 0;", "bad-descriptor",
          "scale-d differs between the lanes", multiply},
         {"setp.ne.u32 %p2, %tid, 128;", "setp.lt.u32 %p2, %tid, 64;", "bad-descriptor",
          "another scale-d than the other warps", multiply},
         {"or.b64 %rd1, %rd1, 0x1000080000;", "or.b64 %rd1, %rd1, 0x1004000000;", "bad-descriptor",
          "descriptor A (0x", multiply},
         {"    wgmma.fence.sync.aligned;\n", "", "missing-wgmma-fence", "no wgmma.fence", multiply},
         {"    @%p1 st.shared.v4.u32 [%r4], {%r8, %r8, %r8, %r8};\n", "", "unwritten-read",
          "reads `b_tile` with wgmma", multiply}});
}

TEST_CASE("Broken PTX: a kernel that stops itself", "[broken]") {
  const std::string declarations = R"(
.extern .func __assertfail(.param .b64 m, .param .b64 f, .param .b32 l, .param .b64 n, .param .b64 s);
.global .align 1 .b8 message[6] = {120, 32, 62, 32, 48, 0};
.global .align 1 .b8 file[5] = {97, 46, 99, 117, 0};
.func descend(.param .b32 depth)
{
  .reg .b32 %r<2>;
  .reg .pred %p<2>;
  ld.param.u32 %r0, [depth];
  setp.eq.u32 %p1, %r0, 0;
  @%p1 bra DONE;
  sub.u32 %r1, %r0, 1;
  {
  .param .b32 param0;
  st.param.b32 [param0+0], %r1;
  call.uni descend, (param0);
  }
DONE:
  ret;
}
)";
  const Kernel kernel{R"(
    mov.u32 %r2, 5;
    {
    .param .b32 param0;
    st.param.b32 [param0+0], %r2;
    call.uni descend, (param0);
    }
    setp.lt.u32 %p1, %tid, 64;
    @!%p1 trap;
    setp.lt.u32 %p2, %tid, 64;
    @%p2 bra HOLDS;
    mov.u64 %rd1, message;
    mov.u64 %rd2, file;
    {
    .param .b64 param0; .param .b64 param1; .param .b32 param2; .param .b64 param3; .param .b64 param4;
    st.param.b64 [param0+0], %rd1;
    st.param.b64 [param1+0], %rd2;
    st.param.b32 [param2+0], 12;
    st.param.b64 [param3+0], %rd2;
    st.param.b64 [param4+0], 1;
    call.uni __assertfail, (param0, param1, param2, param3, param4);
    }
  HOLDS:)",
                      64, declarations};
  check(kernel,
        {{"setp.lt.u32 %p1, %tid, 64;", "setp.lt.u32 %p1, %tid, 63;", "trap", "executes trap",
          "trap"},
         {"setp.lt.u32 %p2, %tid, 64;", "setp.lt.u32 %p2, %tid, 40;", "assert",
          "a.cu:12: a.cu: assertion `x > 0` failed", "call"},
         {"mov.u32 %r2, 5;", "mov.u32 %r2, -1;", "stack-overflow", "calls descend with", "call"}});
}
