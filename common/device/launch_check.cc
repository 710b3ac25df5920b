#include "common/device/launch_check.h"

#include "common/device/concat.h"
#include "common/device/errors.h"

namespace device {
namespace {

constexpr Extent max_grid{2147483647, 65535, 65535};
constexpr Extent max_block{1024, 1024, 64};
constexpr Extent max_cluster{16, 16, 16};
constexpr std::uint64_t max_cluster_size = 16;

template <class... Parts>
[[noreturn]] void refuse(std::string_view kernel, const Parts&... parts) {
  throw Failure(concat("Kernel ", kernel, " ", parts...));
}

bool is_empty(const Extent& extent) {
  return extent.x == 0 || extent.y == 0 || extent.z == 0;
}

/// "4 x 2 x 1"
std::string text(const Extent& extent) {
  return concat(extent.x, " x ", extent.y, " x ", extent.z);
}

bool fits(const Extent& extent, const Extent& most) {
  return extent.x <= most.x && extent.y <= most.y && extent.z <= most.z;
}

bool divides(const Extent& part, const Extent& whole) {
  return whole.x % part.x == 0 && whole.y % part.y == 0 && whole.z % part.z == 0;
}

void check_grid(std::string_view kernel, const Extent& grid) {
  if (is_empty(grid)) {
    refuse(kernel, "is launched on a grid of ", text(grid),
           " CTAs. Launch nothing where there is nothing to do.");
  }
  if (!fits(grid, max_grid)) {
    refuse(kernel, "is launched on a grid of ", text(grid), " CTAs; the most is ", text(max_grid),
           ". Put the CTAs in x.");
  }
}

void check_block(std::string_view kernel, const Extent& block, unsigned most_threads) {
  if (is_empty(block) || !fits(block, max_block)) {
    refuse(kernel, "is launched with blocks of ", text(block),
           " threads; a block has 1 x 1 x 1 to ", text(max_block), ".");
  }
  if (volume(block) > most_threads) {
    refuse(kernel, "is launched with ", volume(block),
           " threads per CTA; its registers and launch bounds allow ", most_threads, ".");
  }
}

void check_cluster(std::string_view kernel, const Extent& cluster, const Extent& grid) {
  if (is_empty(cluster) || !fits(cluster, max_cluster) || volume(cluster) > max_cluster_size) {
    refuse(kernel, "is launched with clusters of ", text(cluster), " CTAs; a cluster has 1 to ",
           max_cluster_size, ".");
  }
  if (!divides(cluster, grid)) {
    refuse(kernel, "is launched on a grid of ", text(grid), " CTAs, which clusters of ",
           text(cluster), " don't divide. Round the grid up.");
  }
}

void check_shared(std::string_view kernel, std::size_t dynamic_bytes, const LaunchLimits& limits) {
  if (dynamic_bytes > limits.shared_bytes_per_block - limits.static_shared_bytes) {
    refuse(kernel, "asks for ", dynamic_bytes, " bytes of dynamic and ", limits.static_shared_bytes,
           " of static shared memory per CTA; the device has ", limits.shared_bytes_per_block,
           ". Take fewer stages or a smaller tile.");
  }
}

}  // namespace

std::uint64_t volume(const Extent& extent) {
  return std::uint64_t{extent.x} * extent.y * extent.z;
}

void check_launch(std::string_view kernel, const LaunchShape& shape, const LaunchLimits& limits) {
  check_grid(kernel, shape.grid);
  check_block(kernel, shape.block, limits.threads_per_block);
  check_cluster(kernel, shape.cluster, shape.grid);
  check_shared(kernel, shape.shared_bytes, limits);
}

}  // namespace device
