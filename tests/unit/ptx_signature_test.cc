// Parameter lists read out of PTX, and launches held against them.
#include "common/device/ptx_signature.h"

#include <string>
#include <string_view>
#include <vector>

#include "common/device/errors.h"
#include "tests/catch.h"
#include "tests/unit/message.h"

using device::Argument;
using device::entry_parameters;
using device::Parameter;

namespace {

// What nvcc 13.0 wrote for
//   template <int n> __global__ void __launch_bounds__(128) hidden(float*, int, float);  (unnamed
//   namespace)
//   __global__ void nothing();
//   __global__ void mixed(const __grid_constant__ CUtensorMap, __nv_bfloat16, bool, Odd, float4,
//                         short, double);
// where Odd holds three chars.
constexpr std::string_view ptx = R"(
.version 9.0
.target sm_90a
.address_size 64

	// .globl	_Z7nothingv

.visible .entry _Z7nothingv()
{
	ret;

}
	// .globl	_Z5mixed14CUtensorMap_st13__nv_bfloat16b3Odd6float4sd
.visible .entry _Z5mixed14CUtensorMap_st13__nv_bfloat16b3Odd6float4sd(
	.param .align 128 .b8 _Z5mixed14CUtensorMap_st13__nv_bfloat16b3Odd6float4sd_param_0[128],
	.param .align 2 .b8 _Z5mixed14CUtensorMap_st13__nv_bfloat16b3Odd6float4sd_param_1[2],
	.param .u8 _Z5mixed14CUtensorMap_st13__nv_bfloat16b3Odd6float4sd_param_2,
	.param .align 1 .b8 _Z5mixed14CUtensorMap_st13__nv_bfloat16b3Odd6float4sd_param_3[3],
	.param .align 16 .b8 _Z5mixed14CUtensorMap_st13__nv_bfloat16b3Odd6float4sd_param_4[16],
	.param .u16 _Z5mixed14CUtensorMap_st13__nv_bfloat16b3Odd6float4sd_param_5,
	.param .f64 _Z5mixed14CUtensorMap_st13__nv_bfloat16b3Odd6float4sd_param_6
)
{
	ret;

}
.entry _ZN38_GLOBAL__N__426337da_6_sig_cu_7274a9806hiddenILi64EEEvPfif(
	.param .u64 _ZN38_GLOBAL__N__426337da_6_sig_cu_7274a9806hiddenILi64EEEvPfif_param_0,
	.param .u32 _ZN38_GLOBAL__N__426337da_6_sig_cu_7274a9806hiddenILi64EEEvPfif_param_1,
	.param .f32 _ZN38_GLOBAL__N__426337da_6_sig_cu_7274a9806hiddenILi64EEEvPfif_param_2
)
.maxntid 128, 1, 1
{
	ret;

}
)";

/// An argument of type T; only its layout is looked at.
template <class T>
Argument argument() {
  return {nullptr, sizeof(T), alignof(T)};
}

std::string refusal(const std::vector<Parameter>& parameters,
                    const std::vector<Argument>& arguments) {
  return tests::message_of<device::Failure>(
      [&] { device::check_arguments("k(int)", parameters, arguments); });
}

std::string unreadable(std::string_view text, std::string_view entry) {
  return tests::message_of<device::Failure>([&] { entry_parameters(text, entry); });
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("the parameters of nvcc's entries have their sizes and alignments") {
  CHECK(entry_parameters(ptx, "_Z7nothingv").empty());
  CHECK(entry_parameters(ptx, "_Z5mixed14CUtensorMap_st13__nv_bfloat16b3Odd6float4sd") ==
        std::vector<Parameter>{{128, 128}, {2, 2}, {1, 1}, {3, 1}, {16, 16}, {2, 2}, {8, 8}});
  CHECK(entry_parameters(ptx, "_ZN38_GLOBAL__N__426337da_6_sig_cu_7274a9806hiddenILi64EEEvPfif") ==
        std::vector<Parameter>{{8, 8}, {4, 4}, {4, 4}});
}

TEST_CASE("pointer attributes and comments don't disturb") {
  constexpr std::string_view text = R"(.visible .entry a // .entry a(
    /* one (, two */ (.param .u64 .ptr .global .align 16 a_param_0, // pointee's alignment
     .param .u64 .ptr a_param_1,.param .s32 a_param_2, .param .b128 a_param_3))";
  CHECK(entry_parameters(text, "a") == std::vector<Parameter>{{8, 8}, {8, 8}, {4, 4}, {16, 16}});
}

TEST_CASE("an entry without a list has no parameters") {
  CHECK(entry_parameters(".entry a { ret; }", "a").empty());
  CHECK(entry_parameters(".entry a() { ret; }", "a").empty());
}

TEST_CASE("entries are told apart by their whole name") {
  constexpr std::string_view text = ".entry ab(.param .u64 x) {} .entry a(.param .u16 x) {}";
  CHECK(entry_parameters(text, "a") == std::vector<Parameter>{{2, 2}});
  CHECK(entry_parameters(text, "ab") == std::vector<Parameter>{{8, 8}});
}

TEST_CASE("what can't be read is refused with the entry's name") {
  CHECK(contains(unreadable(ptx, "_Z7missingv"), "no entry _Z7missingv"));
  CHECK(
      contains(unreadable(".entry a(.param .u64 x", "a"), "parameters of a in the PTX don't end"));
  CHECK(contains(unreadable(".entry a(.param .u64 x, .param .pred y)", "a"), "Parameter 2 of a"));
  CHECK(contains(unreadable(".entry a(.param .b8 x[n])", "a"), "Parameter 1 of a"));
  CHECK(contains(unreadable(".entry a(.param .u64 x,, .param .u64 y)", "a"), "Parameter 2 of a"));
}

TEST_CASE("arguments with the layout of the parameters pass") {
  CHECK(refusal({}, {}).empty());
  CHECK(refusal({{8, 8}, {4, 4}, {2, 2}}, {argument<float*>(), argument<int>(), argument<short>()})
            .empty());
}

TEST_CASE("an argument that differs is named with both layouts") {
  CHECK(refusal({{8, 8}, {8, 8}}, {argument<float*>(), argument<int>()}) ==
        "Argument 2 of kernel k(int) is 4 bytes, aligned to 4, but its PTX has 8 bytes, aligned to "
        "8. Program and PTX must be of one make: rebuild, or edit a fresh copy from --dump-ptx.");
  CHECK(contains(refusal({{8, 4}}, {argument<double>()}),
                 "Argument 1 of kernel k(int) is 8 bytes, aligned to 8, but its PTX has 8 bytes, "
                 "aligned to 4"));
}

TEST_CASE("a different number of arguments is refused with both numbers") {
  CHECK(contains(refusal({{4, 4}}, {}), "with 0 arguments, but its PTX has 1 parameter."));
  CHECK(contains(refusal({{4, 4}, {4, 4}}, {argument<int>()}),
                 "with 1 argument, but its PTX has 2 parameters."));
}
