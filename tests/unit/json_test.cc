#include "common/harness/json.h"

#include <cstdint>
#include <cstdlib>
#include <limits>
#include <optional>
#include <string>

#include "tests/catch.h"

namespace {

using harness::Json;

}  // namespace

TEST_CASE("scalars", "[json]") {
  CHECK(Json().text() == "null");
  CHECK(Json(nullptr).text() == "null");
  CHECK(Json(true).text() == "true");
  CHECK(Json(false).text() == "false");
  CHECK(Json(0).text() == "0");
  CHECK(Json(-7).text() == "-7");
  CHECK(Json(std::numeric_limits<std::int64_t>::min()).text() == "-9223372036854775808");
  CHECK(Json(std::numeric_limits<std::uint64_t>::max()).text() == "18446744073709551615");
  CHECK(Json("text").text() == "\"text\"");
  CHECK(Json(std::string("text")).text() == "\"text\"");
}

TEST_CASE("a real number has the fewest digits that read back as itself", "[json]") {
  CHECK(Json(0.1).text() == "0.1");
  CHECK(Json(0.1F).text() == "0.1");
  CHECK(Json(2.0).text() == "2");
  for (const double number : {1.0 / 3, 0.1 + 0.2, 1e300, 5e-324, -123456.789, 1e22}) {
    CHECK(std::strtod(Json(number).text().c_str(), nullptr) == number);
  }
}

TEST_CASE("what JSON has no number for becomes null", "[json]") {
  CHECK(Json(std::numeric_limits<double>::quiet_NaN()).text() == "null");
  CHECK(Json(std::numeric_limits<double>::infinity()).text() == "null");
  CHECK(Json(-std::numeric_limits<double>::infinity()).text() == "null");
  CHECK(Json(std::numeric_limits<float>::quiet_NaN()).text() == "null");
}

TEST_CASE("an optional is its value or null", "[json]") {
  CHECK(Json(std::optional<double>()).text() == "null");
  CHECK(Json(std::optional<double>(0.5)).text() == "0.5");
  CHECK(Json(std::optional<std::string>("x")).text() == "\"x\"");
  CHECK(Json(std::optional<bool>(false)).text() == "false");
}

TEST_CASE("strings are escaped as RFC 8259 asks, and UTF-8 is kept", "[json]") {
  CHECK(Json(R"(a "quoted" \ word)").text() == R"("a \"quoted\" \\ word")");
  CHECK(Json("two\nlines\ttab").text() == R"("two\nlines\u0009tab")");
  CHECK(Json(std::string("nul \0, bell \a, unit \x1f", 21)).text() ==
        R"("nul \u0000, bell \u0007, unit \u001f")");
  CHECK(Json("\x7f").text() == "\"\x7f\"");
  CHECK(Json("é 漢 \xF0\x9F\x99\x82").text() == "\"é 漢 \xF0\x9F\x99\x82\"");
}

TEST_CASE("objects keep the order of their keys, and nothing is on a second line", "[json]") {
  const Json json = Json::Object{
      {"z", 1},
      {"a", Json::Array{true, nullptr, "x", Json::Array{}, Json::Object{}}},
      {"key \"quoted\"", Json::Object{{"inner", 0.5}}},
  };
  CHECK(json.text() == R"({"z":1,"a":[true,null,"x",[],{}],"key \"quoted\"":{"inner":0.5}})");
}
