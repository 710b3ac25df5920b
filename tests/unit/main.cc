#define CATCH_CONFIG_RUNNER  // makes v2, a header, define its functions here; v3 is a library
#include "tests/catch.h"

int main(int argc, char** argv) {
  return Catch::Session().run(argc, argv);
}
