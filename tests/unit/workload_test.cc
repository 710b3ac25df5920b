#include "common/harness/workload.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "common/device/errors.h"
#include "common/harness/guarded_matrix.h"
#include "tests/catch.h"
#include "tests/unit/host_device.h"

namespace {

using harness::Init;
using harness::Options;
using harness::UsageError;
using harness::Workload;
using tests::HostDevice;

Options options(int m, int n, int k, Init init = Init::normal) {
  Options result;
  result.m = m;
  result.n = n;
  result.k = k;
  result.init = init;
  return result;
}

unsigned short bits(__nv_bfloat16 element) {
  return __bfloat16_as_ushort(element);
}

/// How many of `count` elements are not the NaN that poisons memory.
std::int64_t not_poison(const __nv_bfloat16* elements, std::int64_t count) {
  std::int64_t result = 0;
  for (std::int64_t i = 0; i < count; ++i) result += bits(elements[i]) != 0xFFFF;
  return result;
}

struct Moments {
  double mean, variance, fourth;
};

/// Of all elements of A; the fourth moment is central.
Moments moments(const Workload& workload) {
  const auto a = workload.host_a();
  double mean = 0, variance = 0, fourth = 0;
  for (const auto element : a) mean += __bfloat162float(element);
  mean /= std::ssize(a);
  for (const auto element : a) {
    const double square = std::pow(__bfloat162float(element) - mean, 2);
    variance += square;
    fourth += square * square;
  }
  return {mean, variance / std::ssize(a), fourth / std::ssize(a)};
}

std::string usage_error(const Options& wrong) {
  HostDevice device;
  try {
    const Workload workload(device, wrong, 8);
  } catch (const UsageError& error) {
    CHECK(device.allocated_bytes() == 0);
    return error.what();
  }
  return "no UsageError";
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("Normal operands have the moments of N(0, 1)", "[workload]") {
  HostDevice device;
  Options drawn = options(512, 8, 512);
  for (const std::uint64_t seed : {std::uint64_t{1}, std::uint64_t{2}, ~std::uint64_t{0}}) {
    drawn.seed = seed;
    // Five deviations of each estimate for 2^18 samples: 1/512, sqrt(2)/512, sqrt(96)/512.
    const Moments found = moments(Workload(device, drawn, 8));
    CHECK(std::abs(found.mean) < 0.010);
    CHECK(std::abs(found.variance - 1) < 0.014);
    CHECK(std::abs(found.fourth - 3) < 0.096);
  }
}

TEST_CASE("Uniform operands cover [-1, 1] evenly", "[workload]") {
  HostDevice device;
  const Workload workload(device, options(512, 8, 512, Init::uniform), 8);
  const Moments found = moments(workload);
  CHECK(std::abs(found.mean) < 0.006);
  CHECK(std::abs(found.variance - 1.0 / 3) < 0.003);
  CHECK(std::abs(found.fourth - 1.0 / 5) < 0.003);
  for (const auto element : workload.host_a()) {
    REQUIRE(std::abs(__bfloat162float(element)) <= 1);
  }
}

TEST_CASE("Ones, zeros and index are exact", "[workload]") {
  HostDevice device;
  for (const Init init : {Init::ones, Init::zeros, Init::index}) {
    Options drawn = options(40, 24, 16, init);
    drawn.beta = 1;
    const Workload workload(device, drawn, 8);
    const auto expected = [init](int row, int column, int column_step) {
      if (init == Init::index) return (row + column_step * column) % 17 - 8;
      return init == Init::ones ? 1 : 0;
    };
    for (int row = 0; row < 24; ++row) {
      for (int column = 0; column < 16; ++column) {
        const int at = row * 16 + column;
        REQUIRE(__bfloat162float(workload.host_a()[at]) == expected(row, column, 3));
        REQUIRE(__bfloat162float(workload.host_b()[at]) == expected(row, column, 5));
        REQUIRE(__bfloat162float(workload.host_c()[row * 24 + column]) == expected(row, column, 7));
      }
    }
  }
}

TEST_CASE("An element depends on seed, operand, row and column only", "[workload]") {
  HostDevice device;
  Options small = options(5, 7, 33), large = options(64, 64, 70);
  large.lda = 136;
  large.ldb = 72;
  const Workload one(device, small, 8), other(device, large, 8);
  for (int row = 0; row < 5; ++row) {
    for (int k = 0; k < 33; ++k) {
      REQUIRE(bits(one.host_a()[row * 40 + k]) == bits(other.host_a()[row * 136 + k]));
      REQUIRE(bits(one.host_b()[row * 40 + k]) == bits(other.host_b()[row * 72 + k]));
    }
  }

  const auto same_elements = [](std::span<const __nv_bfloat16> x,
                                std::span<const __nv_bfloat16> y) {
    int same = 0;
    for (std::size_t i = 0; i < x.size(); ++i) same += bits(x[i]) == bits(y[i]);
    return same;
  };
  Options square = options(32, 32, 32);
  const Workload first(device, square, 8);
  square.seed = 2;
  const Workload second(device, square, 8);
  CHECK(same_elements(first.host_a(), first.host_b()) < 32);
  CHECK(same_elements(first.host_a(), second.host_a()) < 32);
}

TEST_CASE("Padding and guard bands hold NaN, and elements don't", "[workload]") {
  HostDevice device;
  Options padded = options(3, 5, 13);
  padded.beta = 1;
  const Workload workload(device, padded, 8);
  const gemm::Problem& problem = workload.problem();
  CHECK(problem.lda == 16);
  CHECK(problem.ldb == 16);
  CHECK(problem.ldc == 8);
  CHECK(problem.ldd == 8);

  const auto check_matrix = [](const __nv_bfloat16* matrix, int rows, int columns, int pitch) {
    constexpr std::int64_t guard = harness::guard_bytes / 2;
    CHECK(reinterpret_cast<std::uintptr_t>(matrix) % 256 == 0);
    CHECK(not_poison(matrix - guard, guard) == 0);
    CHECK(not_poison(matrix + rows * pitch, guard) == 0);
    for (int row = 0; row < rows; ++row) {
      CHECK(not_poison(matrix + row * pitch, columns) == columns);
      CHECK(not_poison(matrix + row * pitch + columns, pitch - columns) == 0);
    }
  };
  check_matrix(problem.a, 3, 13, 16);
  check_matrix(problem.b, 5, 13, 16);
  check_matrix(problem.c, 3, 5, 8);
  check_matrix(problem.d, 3, 0, 8);
  CHECK(std::memcmp(problem.a, workload.host_a().data(), workload.host_a().size_bytes()) == 0);
  CHECK(std::memcmp(problem.b, workload.host_b().data(), workload.host_b().size_bytes()) == 0);
  CHECK(std::memcmp(problem.c, workload.host_c().data(), workload.host_c().size_bytes()) == 0);
}

TEST_CASE("What may not be read holds NaN", "[workload]") {
  HostDevice device;
  Options unread = options(8, 8, 8);

  SECTION("C when beta is 0") {
    const Workload workload(device, unread, 8);
    CHECK(workload.host_c().empty());
    CHECK(not_poison(workload.problem().c, 64) == 0);
  }
  SECTION("A and B when alpha is 0, and k is 0 then") {
    unread.alpha = 0;
    unread.beta = 2;
    const Workload workload(device, unread, 8);
    CHECK(workload.problem().k == 0);
    CHECK(workload.host_a().empty());
    CHECK(workload.host_b().empty());
    CHECK(not_poison(workload.problem().a, 64) == 0);
    CHECK(not_poison(workload.problem().b, 64) == 0);
    CHECK(not_poison(workload.problem().c, 64) == 64);
  }
}

TEST_CASE("Empty problems have valid addresses and pitches", "[workload]") {
  HostDevice device;
  for (const Options& empty :
       {options(0, 8, 8), options(8, 0, 8), options(8, 8, 0), options(0, 0, 0)}) {
    Workload workload(device, empty, 8);
    const gemm::Problem& problem = workload.problem();
    CHECK(problem.a != nullptr);
    CHECK(problem.b != nullptr);
    CHECK(problem.c != nullptr);
    CHECK(problem.d != nullptr);
    CHECK(problem.lda == 8);
    CHECK(problem.ldb == 8);
    CHECK(problem.ldc == 8);
    CHECK(problem.ldd == 8);
    workload.poison_output();
    CHECK(workload.damaged_guard_bytes() == 0);
  }
}

TEST_CASE("A pitch that the user gave is taken or refused in words", "[workload]") {
  Options given = options(16, 16, 65);

  SECTION("taken") {
    HostDevice device;
    given.lda = 72;
    given.ldb = 80;
    given.ldc = 24;
    given.ldd = 1 << 10;
    const gemm::Problem problem = Workload(device, given, 8).problem();
    CHECK(problem.lda == 72);
    CHECK(problem.ldb == 80);
    CHECK(problem.ldc == 24);
    CHECK(problem.ldd == 1024);
  }
  SECTION("too short for a row") {
    given.lda = 64;
    CHECK(contains(usage_error(given), "--lda 64: a row of A has 65 elements"));
  }
  SECTION("not what TMA takes") {
    given.ldb = 65;
    const std::string message = usage_error(given);
    CHECK(contains(message, "--ldb 65"));
    CHECK(contains(message, "rows of B would be 65 elements (130 bytes) apart"));
    CHECK(contains(message, "multiple of 8 elements (16 bytes)"));
    CHECK(contains(message, "--ldb 72"));
  }
  SECTION("of the output, too") {
    given.ldc = 20;
    CHECK(contains(usage_error(given), "--ldc 20"));
    given.ldc.reset();
    given.ldd = 20;
    CHECK(contains(usage_error(given), "--ldd 20"));
  }
  SECTION("beyond what a tensor map can say") {
    given.ldd = std::numeric_limits<std::int64_t>::max() / 8 * 8;
    CHECK(contains(usage_error(given), "must be at least 1 and less than"));
  }
  SECTION("zero, for rows without elements") {
    given.k = 0;
    given.lda = 0;
    CHECK(contains(usage_error(given), "--lda 0"));
  }
  SECTION("any, for a lesson that has no rule") {
    HostDevice device;
    given.lda = 65;
    CHECK(Workload(device, given, 1).problem().lda == 65);
  }
}

TEST_CASE("Sizes beyond the memory are refused", "[workload]") {
  HostDevice device(std::size_t{1} << 20);
  CHECK_THROWS_AS(Workload(device, options(1024, 1024, 1024), 8), device::Failure);
  CHECK(device.allocated_bytes() == 0);
  const int most = std::numeric_limits<int>::max();
  CHECK(contains(usage_error(options(most, 1, most)), "more than any memory holds"));
}

TEST_CASE("The device memory is released", "[workload]") {
  HostDevice device;
  {
    const Workload workload(device, options(16, 16, 16), 8);
    CHECK(device.allocated_bytes() > 4 * 2 * harness::guard_bytes);
  }
  CHECK(device.allocated_bytes() == 0);
}

TEST_CASE("Damage around D is counted and can be undone", "[workload]") {
  HostDevice device;
  Workload workload(device, options(4, 6, 8), 8);
  const gemm::Problem& problem = workload.problem();
  CHECK(workload.damaged_guard_bytes() == 0);
  problem.d[-1] = __float2bfloat16_rn(1);
  problem.d[4 * 8] = __float2bfloat16_rn(1);
  CHECK(workload.damaged_guard_bytes() == 4);

  problem.d[2 * 8 + 3] = __float2bfloat16_rn(7);
  std::vector<__nv_bfloat16> rows(2 * 8);
  workload.copy_output_rows(2, 2, rows);
  CHECK(__bfloat162float(rows[3]) == 7);
  CHECK(not_poison(rows.data(), 16) == 1);

  workload.poison_output();
  CHECK(workload.damaged_guard_bytes() == 0);
  CHECK(not_poison(problem.d, 4 * 8) == 0);
}
