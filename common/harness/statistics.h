// Medians and spreads of samples. A sample that is not finite is an error, never part of a result.
#pragma once

#include <span>

namespace harness {

struct Summary {
  double median, lower_quartile, upper_quartile, min;
};

/// The value below which a share `p` (0 to 1) of the samples lies, interpolated linearly between
/// neighbours (type 7 of Hyndman and Fan, 1996). Throws std::invalid_argument when there are no
/// samples or one of them is NaN or infinite.
double quantile(std::span<const double> samples, double p);

double median(std::span<const double> samples);

Summary summarize(std::span<const double> samples);

/// The median of numerators[i] / denominators[i]: of two contenders timed in the same rounds, so
/// that what slows a whole round down cancels. Throws std::invalid_argument when the spans differ
/// in length, are empty, or hold a ratio that is not finite.
double median_ratio(std::span<const double> numerators, std::span<const double> denominators);

}  // namespace harness
