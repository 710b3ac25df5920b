// Vector clocks: who has been ordered after what, whatever the order in which things happened.
//
// The threads of a cluster are the entries of a clock, and so are facts: counters of things that
// are over (phases of an mbarrier, wgmmas of a warp, bulk copies of a thread). A thread's own time
// is a number that its warp raises whenever one of its lanes releases something. "L knows lane W up
// to t" means that all that W did at its time t or before happens before what L does next.
//
// A clock keeps several such vectors, because orders differ in strength:
//   order        it has been executed before, but perhaps its writes can't be seen (flags that are
//                relaxed or whose scope is too narrow give no more than this)
//   data         its writes can be seen: happens-before of the memory model (PTX ISA 8.9)
//   proxy_*      writes that some fence.proxy.async on the way has shown to the async proxy
//   released_map writes that a release to the tensor-map proxy has followed
//   tensor_map   writes that an acquire of the tensor-map proxy has followed, in this CTA: an SM
//                keeps the maps that it has used, and another one's acquire does not drop them
//   fenced_*     writes before a memory fence of that scope: a relaxed flag behind it carries them
//   observed_*   writes that came with a relaxed flag: a fence of that scope behind it lets them be
//                seen
// The last kinds count only together with `data`, or become data; they are passed on like it, so
// that a fence counts wherever it stands on the way from the writer to the reader.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "common/emulator/observer.h"

namespace emulator {

enum class Known : std::uint8_t {
  order,
  data,
  proxy_shared,
  proxy_global,
  released_map,
  tensor_map,
  fenced_cta,
  fenced_cluster,
  fenced_gpu,
  observed_cta,
  observed_cluster,
  observed_gpu,
};
inline constexpr std::size_t known_kinds = 12;

/// One vector: an entry that was never raised is 0.
class Times {
 public:
  std::uint32_t operator[](std::size_t index) const {
    return index < times_.size() ? times_[index] : 0;
  }
  void raise(std::size_t index, std::uint32_t time);
  /// Raises the entries of the lanes of a warp, the first of which is `first`.
  void raise_lanes(std::size_t first, LaneMask lanes, std::uint32_t time);
  void join(const Times& other);
  void clear() { times_.clear(); }
  bool empty() const { return times_.empty(); }

 private:
  void extend(std::size_t size);

  std::vector<std::uint32_t> times_;  ///< a multiple of 8 entries
};

/// The vectors of all kinds, of one cluster.
using Vectors = std::array<Times, known_kinds>;

/// What the other side learns: everything, nothing but the order, or all with vector `from` in the
/// place of `to`; and less, if it is of another CTA.
struct Transfer {
  bool order_only = false;
  bool crosses_ctas = false;
  Known from = Known::data;
  Known to = Known::data;

  /// A release and an acquire of sufficient scope.
  static constexpr Transfer everything() { return {}; }
  static constexpr Transfer order() { return {.order_only = true}; }
  /// From a relaxed operation: what fences of `scope` have gone before.
  static constexpr Transfer fenced(Scope scope) { return {.from = fenced_kind(scope)}; }
  /// To a relaxed operation, which a fence of `scope` must follow.
  constexpr Transfer observed(Scope scope) const {
    return {.crosses_ctas = crosses_ctas, .from = from, .to = observed_kind(scope)};
  }
  /// The same, from a CTA to others.
  constexpr Transfer to_other_ctas() const {
    return {.order_only = order_only, .crosses_ctas = true, .from = from, .to = to};
  }

  static constexpr Known fenced_kind(Scope scope) {
    return scope == Scope::cta       ? Known::fenced_cta
           : scope == Scope::cluster ? Known::fenced_cluster
                                     : Known::fenced_gpu;
  }
  static constexpr Known observed_kind(Scope scope) {
    return scope == Scope::cta       ? Known::observed_cta
           : scope == Scope::cluster ? Known::observed_cluster
                                     : Known::observed_gpu;
  }
};

/// What a thread, a barrier or a flag knows of its own cluster and of others.
class VectorClock {
 public:
  VectorClock() = default;
  explicit VectorClock(std::uint32_t cluster) : cluster_(cluster) {}

  std::uint32_t cluster() const { return cluster_; }
  std::uint32_t at(Known kind, std::size_t index) const { return own_[slot(kind)][index]; }
  /// An entry of any cluster.
  std::uint32_t at(Known kind, std::uint32_t cluster, std::size_t index) const;

  Times& own(Known kind) { return own_[slot(kind)]; }
  const Times& own(Known kind) const { return own_[slot(kind)]; }

  void join(const VectorClock& other, Transfer transfer = Transfer::everything());
  /// Adds vector `from` of `source` to vector `to`.
  void add(Known to, const VectorClock& source, Known from);
  /// Forgets everything.
  void clear(std::uint32_t cluster);

 private:
  using Foreign = std::pair<std::uint32_t, std::shared_ptr<const Vectors>>;

  static std::size_t slot(Known kind) { return static_cast<std::size_t>(kind); }
  static void join(Vectors& to, const Vectors& from, Transfer transfer);
  const Vectors* find(std::uint32_t cluster) const;
  void join_foreign(std::uint32_t cluster, const std::shared_ptr<const Vectors>& from,
                    Transfer transfer);

  std::uint32_t cluster_ = 0;
  Vectors own_;
  std::vector<Foreign> foreign_;  ///< by cluster; shared, since they seldom change
};

/// One point of view from which a check is made: the knowledge of one lane, or of a warp whose
/// lanes act as one.
class Witness {
 public:
  Witness(std::uint32_t warp, LaneMask self, std::uint32_t time)
      : warp_(warp), self_(self), time_(time) {}

  void add(const VectorClock& clock) {
    if (count_ < most_clocks) clocks_[count_++] = &clock;
  }
  std::uint32_t warp() const { return warp_; }

  /// Whether all `lanes` of a warp are known up to `time`. What its own lanes did up to now is
  /// known by program order.
  bool knows(Known kind, std::uint32_t cluster, std::uint32_t warp, LaneMask lanes,
             std::uint32_t time) const;
  std::uint32_t fact(Known kind, std::uint32_t cluster, std::uint32_t index) const;

 private:
  static constexpr std::size_t most_clocks = 16;

  std::uint32_t entry(Known kind, std::uint32_t cluster, std::size_t index) const;

  std::array<const VectorClock*, most_clocks> clocks_{};
  std::size_t count_ = 0;
  std::uint32_t warp_;
  LaneMask self_;
  std::uint32_t time_;
};

/// What the 32 threads of a warp know: mostly the same, so there is one clock that all share, and
/// one more for each group of lanes that has learned something alone.
///
/// At most 8 groups are kept apart. Beyond that they are taken together: that may hide a race
/// between lanes of this warp, and never invents one.
class WarpClocks {
 public:
  void reset(std::uint32_t cluster, std::uint32_t warp);

  std::uint32_t time() const { return time_; }
  std::uint32_t cluster() const { return common_.cluster(); }

  /// The lanes learn what `clock` knows.
  void acquire(LaneMask lanes, const VectorClock& clock,
               Transfer transfer = Transfer::everything());
  /// The lanes learn that a fact has reached `value`.
  void learn(LaneMask lanes, std::size_t index, std::uint32_t value);
  /// The lanes learn that all lanes of another warp of the cluster have got to its `time`.
  void learn_progress(LaneMask lanes, std::uint32_t warp, std::uint32_t time);
  /// `into`, a clock of the same cluster, learns what each of the lanes knows and has done. A new
  /// time begins.
  void release(LaneMask lanes, VectorClock& into, Transfer transfer = Transfer::everything());
  /// The lanes have met: each knows what the others did and knew. A new time begins.
  void meet(LaneMask lanes);
  /// The warp executes an instruction that all its lanes must reach: an order without visibility.
  void meet_in_order();
  /// The lanes execute a fence that shows what they know to `kind`. A new time begins.
  void fence(LaneMask lanes, Known kind);
  /// The lanes execute a fence that lets them see what they have observed as `kind`.
  void admit(LaneMask lanes, Known kind);
  /// A new time begins: what the warp did so far can be told from what it does next.
  void advance() { ++time_; }
  /// Whether the warp has heard of any memory fence, its own or another's.
  bool knows_fences() const;
  /// The lanes have left the kernel: they need not be at any meeting.
  void exit(LaneMask lanes) { exited_ |= lanes; }

  /// The point of view of a lane; valid until the warp learns something.
  Witness witness(int lane) const;
  /// That of the warp as one: what any of its lanes knows.
  Witness witness() const;
  /// What all lanes know in common: a quick first try.
  Witness common_witness() const;
  /// A copy of what any of its lanes knows, shared until the warp learns something.
  std::shared_ptr<const VectorClock> snapshot() const;

 private:
  struct Group {
    LaneMask lanes;
    VectorClock clock;
  };
  static constexpr std::size_t most_groups = 8;

  bool whole(LaneMask lanes) const { return (lanes | exited_) == ~LaneMask{0}; }
  VectorClock& clock_of(LaneMask lanes);
  /// The lanes' vector `to` learns what they know as `from`.
  void move(LaneMask lanes, Known to, Known from);
  void changed() { snapshot_ = nullptr; }

  std::uint32_t warp_ = 0;
  std::uint32_t time_ = 1;
  LaneMask exited_ = 0;
  VectorClock common_;
  std::vector<Group> groups_;
  mutable std::shared_ptr<const VectorClock> snapshot_;
};

}  // namespace emulator
