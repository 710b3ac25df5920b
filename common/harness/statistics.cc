#include "common/harness/statistics.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <stdexcept>
#include <vector>

namespace harness {

double quantile(std::span<const double> samples, double p) {
  if (samples.empty()) throw std::invalid_argument("There are no samples to summarize.");
  if (!std::all_of(samples.begin(), samples.end(), [](double x) { return std::isfinite(x); })) {
    throw std::invalid_argument("A sample is not a finite number.");
  }
  if (!(p >= 0 && p <= 1)) throw std::invalid_argument("A quantile lies between 0 and 1.");

  std::vector<double> sorted(samples.begin(), samples.end());
  std::sort(sorted.begin(), sorted.end());
  const double position = p * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(position);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return std::lerp(sorted[below], sorted[above], position - static_cast<double>(below));
}

double median(std::span<const double> samples) {
  return quantile(samples, 0.5);
}

Summary summarize(std::span<const double> samples) {
  return {.median = median(samples),
          .lower_quartile = quantile(samples, 0.25),
          .upper_quartile = quantile(samples, 0.75),
          .min = quantile(samples, 0)};
}

double median_ratio(std::span<const double> numerators, std::span<const double> denominators) {
  if (numerators.size() != denominators.size()) {
    throw std::invalid_argument("A ratio needs as many numerators as denominators.");
  }
  std::vector<double> ratios(numerators.size());
  std::transform(numerators.begin(), numerators.end(), denominators.begin(), ratios.begin(),
                 [](double numerator, double denominator) { return numerator / denominator; });
  return median(ratios);
}

}  // namespace harness
