// Holds cuBLAS itself to double precision: the library that judges the lessons must pass the same
// verdict. Prints one line a shape and ends with status 1 if one fails.
#include <cstdlib>
#include <iostream>

#include "common/device/device.h"
#include "common/harness/cublas_oracle.h"
#include "common/harness/lesson.h"
#include "common/harness/verdict.h"

int main() {
  return harness::guard("check_cublas", [] {
    struct Shape {
      int m, n, k;
    };
    const auto device = device::open({.choice = device::Choice::cuda});
    bool passed = true;
    for (const auto& [m, n, k] : {Shape{128, 128, 128}, Shape{129, 136, 72}, Shape{1, 8, 8},
                                  Shape{7, 9, 65}, Shape{1000, 1064, 520}, Shape{64, 64, 100003},
                                  Shape{2048, 2048, 2048}, Shape{4096, 4096, 1024}}) {
      const harness::Verdict verdict =
          harness::check_cublas_against_double(*device, m, n, k, /*seed=*/1);
      std::cout << m << " x " << n << " x " << k << ": "
                << harness::describe(verdict, harness::Tile{128, 128}) << std::endl;
      passed = passed && verdict.passed();
    }
    return passed ? EXIT_SUCCESS : EXIT_FAILURE;
  });
}
