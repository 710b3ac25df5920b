// A PTX module as the parser leaves it: names resolved, nothing decoded. The contract between the
// parser (parser.h) and everything behind it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace emulator {

/// Where an instruction comes from: its line in the PTX text, and the CUDA line that .loc gives for
/// it (file is an index into Module::files, -1 without line information). What was inlined from
/// another file has the line of its caller: a lesson's, not that of the wrapper it calls.
struct Location {
  int ptx_line = 0;
  int file = -1;
  int cuda_line = 0;
};

enum class Space : std::uint8_t { param, global, shared, local, constant };

/// A variable in memory: a kernel or function parameter, a module-scope or function-scope .global,
/// .shared, .const, .local or .param declaration.
struct Variable {
  std::string name;  ///< as in the PTX, mangled
  Space space = Space::global;
  std::size_t size = 0;       ///< bytes; 0 for `.extern .shared name[]` (dynamic shared memory)
  std::size_t alignment = 1;  ///< bytes
  bool external = false;      ///< .extern
  std::vector<std::byte> initial;  ///< .global and .const initializers, zero-extended to `size`
};

/// A virtual register. Only the width matters: nvcc reuses registers of one width for any type.
struct Register {
  std::string name;
  int bits = 32;  ///< 1 for .pred, else 16, 32, 64 or 128 (8-bit declarations become 16)
};

struct Operand {
  enum class Kind : std::uint8_t {
    reg,       ///< index: into Function::registers; negated: `!p`
    integer,   ///< bits: two's complement, 64 bits wide
    f32,       ///< bits: 0f3F800000, or a decimal literal as f64
    f64,       ///< bits: 0d3FF0000000000000
    special,   ///< name: "%tid.x", "%clock64"; also WARP_SZ
    variable,  ///< index: into Module::variables (module scope) or, with bit 31 set, into
               ///< Function::variables (parameters first, then function-scope declarations);
               ///< offset: `mov.u64 %rd1, table+16`
    label,     ///< index: of the instruction that the label stands before; the number of
               ///< instructions for a label at the end
    function,  ///< name: "vprintf"; index: into Module::functions, or -1 when it is declared only
    sink,      ///< `_`
    vector,    ///< elements: `{a, b}`
    address,   ///< elements[0]: base (reg, variable or integer), offset; elements[1], if there:
               ///< vector of tensor coordinates, `[map, {x, y}]`
    pair,      ///< elements: `d|p`
    list,      ///< elements: a parenthesized argument list of call
  };
  static constexpr std::uint32_t function_scope = 1u << 31;

  Kind kind = Kind::sink;
  bool negated = false;
  std::uint32_t index = 0;
  std::uint64_t bits = 0;
  std::int64_t offset = 0;
  std::string name;
  std::vector<Operand> elements;
};

struct Instruction {
  std::vector<std::string_view> opcode;  ///< split at dots: {"ld", "global", "v2", "f32"};
                                         ///< "shared::cta" stays one part; views of Module::source
  std::vector<Operand> operands;         ///< destination first, as written
  int guard = -1;                        ///< register index of `@p`, -1 if unguarded
  bool guard_negated = false;            ///< `@!p`
  Location location;
  std::string_view text;  ///< the opcode as written, for messages: "ld.global.v2.f32"; a view of
                          ///< Module::source
};

/// An .entry (kernel) or a .func.
struct Function {
  std::string name;
  bool is_entry = false;
  std::vector<Register> registers;
  std::vector<Variable> variables;  ///< parameters in order, then what the body declares
  std::size_t parameter_count = 0;
  std::vector<std::uint32_t> return_variables;  ///< indices of a .func's return parameters
  std::vector<Instruction> instructions;
  std::array<int, 3> max_threads{};       ///< .maxntid, 0 if absent; sizes not given are 1
  std::array<int, 3> required_threads{};  ///< .reqntid, 0 if absent
  int min_ctas_per_sm = 0;                ///< .minnctapersm, 0 if absent
  int max_registers = 0;                  ///< .maxnreg, 0 if absent
  std::array<int, 3> required_cluster{};  ///< .reqnctapercluster, 0 if absent
  Location location;
};

struct Module {
  /// The PTX text. Instructions hold views of it, and must not outlive the last copy of their
  /// module.
  std::shared_ptr<const std::string> source;
  std::string version;              ///< "9.0"
  std::string target;               ///< "sm_90a"
  std::vector<std::string> files;   ///< of .file directives, as written
  std::vector<Variable> variables;  ///< module scope
  std::vector<Function> functions;

  /// The entry of this name, nullptr if there is none.
  const Function* entry(std::string_view name) const;
};

}  // namespace emulator
