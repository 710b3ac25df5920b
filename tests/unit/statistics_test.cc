#include "common/harness/statistics.h"

#include <limits>
#include <stdexcept>
#include <vector>

#include "tests/catch.h"

namespace {

using Samples = std::vector<double>;

constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();
constexpr double infinity = std::numeric_limits<double>::infinity();

}  // namespace

TEST_CASE("the median is the middle sample, or halfway between the two middle ones",
          "[statistics]") {
  CHECK(harness::median(Samples{3}) == 3);
  CHECK(harness::median(Samples{3, 1, 2}) == 2);
  CHECK(harness::median(Samples{4, 1, 3, 2}) == 2.5);
  CHECK(harness::median(Samples{5, 5, 5, 1000}) == 5);
}

TEST_CASE("quantiles interpolate between neighbours", "[statistics]") {
  const Samples samples{40, 10, 30, 20};
  CHECK(harness::quantile(samples, 0) == 10);
  CHECK(harness::quantile(samples, 1) == 40);
  CHECK(harness::quantile(samples, 0.25) == Approx(17.5));
  CHECK(harness::quantile(samples, 0.1) == Approx(13));
  CHECK_THROWS_AS(harness::quantile(samples, -0.1), std::invalid_argument);
  CHECK_THROWS_AS(harness::quantile(samples, 1.1), std::invalid_argument);
  CHECK_THROWS_AS(harness::quantile(samples, not_a_number), std::invalid_argument);
}

TEST_CASE("a summary has the median, the quartiles and the minimum", "[statistics]") {
  const harness::Summary summary = harness::summarize(Samples{5, 1, 4, 2, 3});
  CHECK(summary.median == 3);
  CHECK(summary.lower_quartile == 2);
  CHECK(summary.upper_quartile == 4);
  CHECK(summary.min == 1);
}

TEST_CASE("the median of ratios pairs the samples of a round", "[statistics]") {
  // The second round was twice as slow for both: its ratio is like the others'.
  CHECK(harness::median_ratio(Samples{2, 4, 2}, Samples{4, 8, 4}) == 0.5);
  // Not the ratio of the medians, which is 2 / 2.
  CHECK(harness::median_ratio(Samples{1, 2, 9}, Samples{2, 1, 3}) == 2);
}

TEST_CASE("a sample that is not finite is an error, never part of a result", "[statistics]") {
  for (const double bad : {not_a_number, infinity, -infinity}) {
    for (const Samples& samples :
         {Samples{bad}, Samples{bad, 1, 2}, Samples{1, bad, 2}, Samples{1, 2, bad}}) {
      CHECK_THROWS_AS(harness::median(samples), std::invalid_argument);
      CHECK_THROWS_AS(harness::summarize(samples), std::invalid_argument);
      CHECK_THROWS_AS(harness::quantile(samples, 0), std::invalid_argument);
      CHECK_THROWS_AS(harness::median_ratio(samples, Samples(samples.size(), 1.0)),
                      std::invalid_argument);
    }
  }
  CHECK_THROWS_AS(harness::median_ratio(Samples{1, 0}, Samples{1, 0}), std::invalid_argument);
  CHECK_THROWS_AS(harness::median_ratio(Samples{1, 1}, Samples{1, 0}), std::invalid_argument);
}

TEST_CASE("no samples, or unpaired ones, have no median", "[statistics]") {
  CHECK_THROWS_AS(harness::median(Samples{}), std::invalid_argument);
  CHECK_THROWS_AS(harness::median_ratio(Samples{}, Samples{}), std::invalid_argument);
  CHECK_THROWS_AS(harness::median_ratio(Samples{1, 2}, Samples{1}), std::invalid_argument);
}
