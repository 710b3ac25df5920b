#include "common/harness/variants.h"

#include <initializer_list>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "tests/catch.h"
#include "tests/unit/host_device.h"
#include "tests/unit/message.h"

namespace {

using harness::Selection;
using harness::UsageError;

int prepared = 0;

template <int number>
harness::Launch prepare(device::Device&, const gemm::Problem&, const Selection&) {
  prepared = number;
  return {};
}

const harness::Variants variants{{"--tile 128x128 --walk backwards", prepare<1>},
                                 {"--tile 64x128", prepare<2>},
                                 {"--walk forwards", prepare<3>},
                                 {"--trace", prepare<4>},
                                 {"--tile 64x128 --trace", prepare<5>},
                                 {"--break no-phase", prepare<6>, "waits for the past"},
                                 {"--tile 64x128 --break no-fence", prepare<7>, "has no fence"}};

/// A command line's choice: "band" is a knob that no variant names.
Selection selection(std::string tile, std::string walk, std::string broken = "",
                    bool traced = false) {
  Selection selection;
  selection.set("tile", std::move(tile));
  selection.set("walk", std::move(walk));
  selection.set("band", "8");
  selection.set_broken(std::move(broken));
  static gemm::TimelineTrack track;
  gemm::Timeline timeline{};
  if (traced) timeline.tracks = &track;
  selection.set_timeline(timeline);
  return selection;
}

/// The number of the variant that is prepared.
int number_of(const Selection& selection) {
  tests::HostDevice device;
  prepared = 0;
  variants(device, gemm::Problem{}, selection);
  return prepared;
}

std::string refusal(const Selection& selection) {
  return tests::message_of<UsageError>([&] { number_of(selection); });
}

}  // namespace

TEST_CASE("a variant is chosen by the knobs that the rows name", "[variants]") {
  CHECK(number_of(selection("128x128", "backwards")) == 1);
  CHECK(number_of(selection("64x128", "backwards")) == 2);
  CHECK(number_of(selection("128x128", "forwards")) == 3);
}

TEST_CASE("the traced and the broken variants have rows of their own", "[variants]") {
  CHECK(number_of(selection("128x128", "backwards", "", true)) == 4);
  CHECK(number_of(selection("64x128", "backwards", "", true)) == 5);
  CHECK(number_of(selection("128x128", "backwards", "no-phase")) == 6);
  CHECK(number_of(selection("64x128", "backwards", "no-fence")) == 7);
}

TEST_CASE("knobs for which there is no variant are refused, with those that there are",
          "[variants]") {
  CHECK(refusal(selection("64x128", "backwards", "no-phase")) ==
        "--break no-phase runs with --tile 128x128 --walk backwards only.");
  CHECK(refusal(selection("128x128", "backwards", "no-fence")) ==
        "--break no-fence runs with --tile 64x128 --walk backwards only.");
  CHECK(refusal(selection("128x128", "forwards", "", true)) ==
        "--trace runs with --tile 128x128 --walk backwards, or with --tile 64x128 --walk backwards "
        "only.");
  CHECK(refusal(selection("64x128", "forwards")) ==
        "The kernel runs with --tile 128x128 --walk backwards, or with --tile 64x128 --walk "
        "backwards, or with --tile 128x128 --walk forwards only.");
}

TEST_CASE("a variant that no row has is a mistake in the lesson", "[variants]") {
  CHECK_THROWS_AS(number_of(selection("128x128", "backwards", "no-order")), std::logic_error);
}

TEST_CASE("what a row breaks is listed by the row's name", "[variants]") {
  const std::vector<harness::Break> breaks = variants.breaks();
  REQUIRE(breaks.size() == 2);
  CHECK(breaks[0].name == "no-phase");
  CHECK(breaks[0].what == "waits for the past");
  CHECK(breaks[1].name == "no-fence");
  CHECK(breaks[1].what == "has no fence");
}
