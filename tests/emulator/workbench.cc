#include "tests/emulator/workbench.h"

#include <cuda_bf16.h>
#include <cxxabi.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <map>
#include <numeric>
#include <optional>
#include <random>
#include <span>
#include <sstream>
#include <stdexcept>

#include "common/emulator/formats.h"
#include "common/emulator/parser.h"
#include "common/emulator/tensor_map_record.h"
#include "common/gemm/problem.h"
#include "common/gemm/timeline.h"

namespace workbench {

namespace {

using Bf16 = std::uint16_t;

/// Elements between a row's end and the next one's begin, and rows behind the last: guards.
constexpr int guard = 8;
constexpr Bf16 guard_value = 0xFFA5;  // a NaN that no kernel writes
constexpr double launch_limit_s = 60;

int round_up(int value, int multiple) {
  return (value + multiple - 1) / multiple * multiple;
}
int tiles(int extent, int tile) {
  return (extent + tile - 1) / tile;
}

std::string read_text(const std::string& path) {
  std::ifstream file(path);
  if (!file)
    throw std::runtime_error("Can't read " + path + ": build it with make, run from there.");
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

const emulator::Module& module_at(const std::string& path) {
  static std::map<std::string, emulator::Module> modules;
  const auto known = modules.find(path);
  if (known != modules.end()) return known->second;
  return modules.emplace(path, emulator::parse(read_text(path))).first->second;
}

/// A row-major bf16 matrix in device memory.
struct Matrix {
  int rows = 0;
  int columns = 0;
  int pitch = 0;
  Bf16* data = nullptr;

  std::size_t elements() const { return static_cast<std::size_t>(pitch) * (rows + guard); }
  /// The elements, without the guards, one row after the other.
  std::vector<double> values() const {
    std::vector<double> all;
    for (int row = 0; row < rows; ++row) {
      for (int column = 0; column < columns; ++column) {
        all.push_back(
            emulator::widen(emulator::format::bf16, data[std::int64_t{row} * pitch + column]));
      }
    }
    return all;
  }
};

/// A kernel's operands, results and scratch memory.
struct Operands {
  Matrix a, b, c, d;
  Coefficients coefficients;
  int splits = 0;
  std::uint32_t* flags = nullptr;
  float* workspace = nullptr;
  std::size_t workspace_elements = 0;
  float* sums = nullptr;  ///< multicast: n for each group of `sum_rows` rows
  int sum_rows = 0;

  gemm::Problem problem() const {
    const auto in = [](const Matrix& matrix) {
      return reinterpret_cast<const __nv_bfloat16*>(matrix.data);
    };
    return {.m = d.rows,
            .n = d.columns,
            .k = a.columns,
            .alpha = coefficients.alpha,
            .beta = coefficients.beta,
            .a = in(a),
            .b = in(b),
            .c = in(c),
            .d = reinterpret_cast<__nv_bfloat16*>(d.data),
            .lda = a.pitch,
            .ldb = b.pitch,
            .ldc = c.pitch,
            .ldd = d.pitch};
  }
};

/// What to launch, but for the kernel itself.
struct Launch {
  emulator::LaunchGeometry geometry;
  std::vector<std::vector<std::byte>> arguments;

  template <class T>
  void add(const T& argument) {
    const auto bytes = std::as_bytes(std::span(&argument, 1));
    arguments.emplace_back(bytes.begin(), bytes.end());
  }
};

emulator::TensorMapBytes map_of(const Matrix& matrix, int box_rows) {
  emulator::TensorMapRecord record;
  record.rank = 2;
  record.address = reinterpret_cast<std::uint64_t>(matrix.data);
  // A map can't describe an empty tensor; for k = 0 nobody copies.
  record.extent[0] = static_cast<std::uint64_t>(std::max(matrix.columns, 1));
  record.extent[1] = static_cast<std::uint64_t>(matrix.rows);
  record.stride[0] = static_cast<std::uint64_t>(matrix.pitch) * sizeof(Bf16);
  record.box[0] = 64;
  record.box[1] = static_cast<std::uint32_t>(box_rows);
  record.swizzle = emulator::SwizzleMode::b128;
  return emulator::encode_tensor_map(record);
}

emulator::LaunchGeometry geometry(int ctas, int threads, int shared_bytes) {
  return {.grid = {static_cast<std::uint32_t>(ctas)},
          .block = {static_cast<std::uint32_t>(threads)},
          .cluster = {},
          .dynamic_shared_bytes = static_cast<std::uint32_t>(shared_bytes)};
}

// ---- The kernels: how each is launched. `numbers` are the template arguments.

Launch prepare_naive(const Operands& operands, const std::vector<int>& numbers) {
  const int patch_rows = numbers.at(1);
  Launch launch;
  launch.geometry = geometry(
      tiles(operands.d.rows, 8 * patch_rows) * tiles(operands.d.columns, 32 / patch_rows), 256, 0);
  launch.add(operands.problem());
  return launch;
}

Launch prepare_wgmma(const Operands& operands, const std::vector<int>& numbers) {
  const int m = numbers.at(0);
  const int n = numbers.at(1);
  Launch launch;
  launch.geometry =
      geometry(tiles(operands.d.rows, m) * tiles(operands.d.columns, n), 128, (m + n) * 128);
  launch.add(operands.problem());
  return launch;
}

Launch prepare_tma(const Operands& operands, const std::vector<int>& numbers) {
  Launch launch;
  launch.add(map_of(operands.a, numbers.at(0)));
  launch.add(map_of(operands.b, numbers.at(1)));
  Launch same = prepare_wgmma(operands, numbers);
  launch.geometry = same.geometry;
  launch.arguments.push_back(same.arguments.front());
  launch.add(gemm::Timeline{});
  return launch;
}

Launch prepare_ring(const Operands& operands, const std::vector<int>& numbers) {
  constexpr int most_ctas = 3;  // so that CTAs have several tiles, and not all the same number
  const int consumers = numbers.at(0);
  const int stages = numbers.at(1);
  const int m = 64 * consumers;
  const int shared_bytes = (stages * (consumers + 1) + consumers) * 64 * 128;
  Launch launch;
  launch.geometry =
      geometry(std::min(most_ctas, tiles(operands.d.rows, m) * tiles(operands.d.columns, 64)),
               128 * (consumers + 1), shared_bytes);
  launch.add(map_of(operands.a, m));
  launch.add(map_of(operands.b, 64));
  launch.add(map_of(operands.d, 64));
  launch.add(Size{operands.d.rows, operands.d.columns, operands.a.columns});
  return launch;
}

Launch prepare_multicast(const Operands& operands, const std::vector<int>& numbers) {
  const int cluster = numbers.at(0);
  const int groups = tiles(operands.d.rows, 64 * cluster) * tiles(operands.d.columns, 64);
  Launch launch;
  launch.geometry = geometry(groups * cluster, 160, 2 * 2 * 64 * 128);
  launch.add(map_of(operands.a, 64));
  launch.add(map_of(operands.b, 64 / cluster));
  launch.add(operands.problem());
  launch.add(operands.sums);
  return launch;
}

Launch prepare_split_k(const Operands& operands, const std::vector<int>&) {
  Launch launch;
  launch.geometry =
      geometry(tiles(operands.d.rows, 8) * tiles(operands.d.columns, 8) * operands.splits, 128, 0);
  launch.add(operands.problem());
  launch.add(operands.splits);
  launch.add(operands.workspace);
  launch.add(operands.flags);
  return launch;
}

struct Family {
  const char* name;
  const char* ptx;
  const char* source;  ///< where enum class Break is
  Launch (*prepare)(const Operands&, const std::vector<int>& numbers);
  const char* behind_break = "";  ///< further template arguments
};

constexpr Family families[] = {
    {"gemm_naive", "build/lesson01.ptx", "lessons/lesson01_naive.cu", prepare_naive},
    {"gemm_wgmma", "build/lesson02.ptx", "lessons/lesson02_wgmma.cu", prepare_wgmma},
    {"gemm_tma", "build/lesson03.ptx", "lessons/lesson03_tma.cu", prepare_tma, ", false"},
    {"ring", "build/tests/kernels/ring.ptx", "tests/kernels/ring.cuh", prepare_ring},
    {"ring", "build/tests/kernels/ring_repaired.ptx", "tests/kernels/ring.cuh", prepare_ring},
    {"multicast", "build/tests/kernels/multicast.ptx", "tests/kernels/multicast.cu",
     prepare_multicast},
    {"split_k", "build/tests/kernels/split_k.ptx", "tests/kernels/split_k.cu", prepare_split_k},
};

/// The value of an enumerator in the source's `enum class Break { none, ... };`.
int value_of_break(const std::string& path, const std::string& enumerator) {
  const std::string source = read_text(path);
  const std::string head = "enum class Break {";
  const std::size_t begin = source.find(head);
  if (begin == std::string::npos) throw std::runtime_error(path + " has no enum class Break.");
  std::istringstream lines(source.substr(begin + head.size()));
  std::string list;
  for (std::string line; list.find('}') == std::string::npos && std::getline(lines, line);) {
    list += line.substr(0, line.find("//")) + ' ';
  }
  list.resize(std::min(list.find('}'), list.size()));
  std::replace(list.begin(), list.end(), ',', ' ');
  std::istringstream words(list);
  std::string word;
  for (int value = 0; words >> word; ++value) {
    if (word == enumerator) return value;
  }
  throw std::runtime_error("enum class Break of " + path + " has no " + enumerator + ".");
}

/// "void ns::ring<2, 3, (ns::Break)1>(...)" as "ring<2, 3, (Break)1>"; a name that is not mangled
/// stays.
std::string readable(const std::string& mangled) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> demangled(
      abi::__cxa_demangle(mangled.c_str(), nullptr, nullptr, &status), &std::free);
  if (status != 0) return mangled;
  std::string name = demangled.get();
  for (const std::string qualifier : {"(anonymous namespace)::", "kernels::", "void "}) {
    for (std::size_t at; (at = name.find(qualifier)) != std::string::npos;) {
      name.erase(at, qualifier.size());
    }
  }
  for (std::size_t at; (at = name.find("((Break))")) != std::string::npos;) {
    name.replace(at, 9, "(Break)");
  }
  return name.substr(0, name.rfind(">(") + 1);
}

const emulator::Function* find_kernel(const emulator::Module& module, const std::string& name) {
  for (const emulator::Function& function : module.functions) {
    if (function.is_entry && readable(function.name) == name) return &function;
  }
  return nullptr;
}

/// The integers, and true and false, in "ring<2, 3>".
std::vector<int> template_numbers(const std::string& kernel) {
  std::vector<int> numbers;
  std::string list = kernel.substr(kernel.find('<') + 1);
  list.back() = ' ';
  std::replace(list.begin(), list.end(), ',', ' ');
  std::istringstream words(list);
  for (std::string word; words >> word;) {
    if (word == "true" || word == "false") {
      numbers.push_back(word == "true");
    } else {
      numbers.push_back(std::stoi(word.substr(word.find(')') + 1)));  // also "(Walk)2"
    }
  }
  return numbers;
}

}  // namespace

struct Workbench::State {
  explicit State(const Setup& setup) : machine(setup.machine), checker({.strict = setup.strict}) {
    machine.options().time_limit_s = launch_limit_s;
    find(setup);
    numbers = template_numbers(setup.kernel);
    allocate(setup);
  }

  void find(const Setup& setup) {
    if (!setup.ptx.empty()) own_module = emulator::parse(setup.ptx);
    const std::string base = setup.kernel.substr(0, setup.kernel.find('<'));
    for (const Family& candidate : families) {
      if (base != candidate.name) continue;
      const int value = value_of_break(candidate.source, setup.broken);
      const std::string name = setup.kernel.substr(0, setup.kernel.size() - 1) + ", (Break)" +
                               std::to_string(value) + candidate.behind_break + ">";
      family = &candidate;
      module = own_module ? &*own_module : &module_at(candidate.ptx);
      kernel = find_kernel(*module, name);
      if (kernel != nullptr) return;
      if (!own_module) continue;
      const emulator::Function* const missing = find_kernel(module_at(candidate.ptx), name);
      if (missing == nullptr) continue;
      throw std::runtime_error("The PTX has no entry " + missing->name + ".");
    }
    throw std::runtime_error("No PTX in build/ has the kernel " + setup.kernel +
                             " with Break::" + setup.broken + ".");
  }

  Matrix matrix(int rows, int columns) {
    Matrix result{rows, columns, round_up(columns, 8) + guard, nullptr};
    result.data = static_cast<Bf16*>(machine.allocate(result.elements() * sizeof(Bf16)));
    return result;
  }

  void allocate(const Setup& setup) {
    const auto [m, n, k] = setup.size;
    operands.a = matrix(m, k);
    operands.b = matrix(n, k);
    operands.c = matrix(m, n);
    operands.d = matrix(m, n);
    operands.coefficients = setup.coefficients;
    operands.splits = setup.splits;

    const auto small_tiles = static_cast<std::size_t>(tiles(m, 8)) * tiles(n, 8);
    operands.flags =
        static_cast<std::uint32_t*>(machine.allocate(small_tiles * sizeof(std::uint32_t)));
    std::fill_n(operands.flags, small_tiles, 0u);
    operands.workspace_elements = small_tiles * setup.splits * 64;
    operands.workspace =
        static_cast<float*>(machine.allocate(operands.workspace_elements * sizeof(float)));
    // Zeros for those who add to it, NaN for those who must write first.
    const bool by_ticket = setup.kernel == "split_k<true>";
    std::fill_n(operands.workspace, operands.workspace_elements, by_ticket ? 0.0f : NAN);

    const bool has_sums = std::string(family->name) == "multicast";
    operands.sum_rows = has_sums ? 64 * numbers.at(0) : 0;
    if (has_sums) {
      operands.sums = static_cast<float*>(
          machine.allocate(static_cast<std::size_t>(sum_count()) * sizeof(float)));
    }
  }

  int sum_count() const { return tiles(operands.d.rows, operands.sum_rows) * operands.d.columns; }

  void fill(std::uint64_t seed) {
    std::mt19937_64 random(seed);
    for (Matrix* const matrix : {&operands.a, &operands.b, &operands.c, &operands.d}) {
      std::fill_n(matrix->data, matrix->elements(), guard_value);
    }
    for (Matrix* const matrix : {&operands.a, &operands.b, &operands.c}) {
      // beta = 0: C must not be read.
      if (matrix == &operands.c && operands.coefficients.beta == 0) continue;
      for (int row = 0; row < matrix->rows; ++row) {
        for (int column = 0; column < matrix->columns; ++column) {
          const double value = (static_cast<double>(random() % 9) - 4) / 4;
          matrix->data[std::int64_t{row} * matrix->pitch + column] =
              static_cast<Bf16>(emulator::narrow(emulator::format::bf16, value));
        }
      }
    }
    if (operands.sums != nullptr) std::fill_n(operands.sums, sum_count(), NAN);
  }

  static void note_wrong(Result& result, const char* what, int row, int column, double is,
                         double should_be) {
    if (result.wrong++ != 0) return;
    std::ostringstream text;
    text << what << "(" << row << ", " << column << ") is " << is << ", not " << should_be;
    result.first_wrong = text.str();
  }

  void compare(Result& result) const {
    const Matrix& d = operands.d;
    const int k_end = operands.a.columns;
    const std::vector<double> a = operands.a.values();
    const std::vector<double> b = operands.b.values();
    const std::vector<double> c = operands.c.values();
    std::vector<double> sums(operands.sums != nullptr ? sum_count() : 0);
    std::vector<Bf16> expected(d.elements(), guard_value);
    // A TMA store writes the whole 16 bytes that hold a row's last element
    // (tests/golden/README.md): behind it zeros, as B has no such column.
    const bool fills_chunks = family->prepare == prepare_ring;
    const int filled = fills_chunks ? (d.columns + 7) / 8 * 8 : d.columns;
    for (int row = 0; row < d.rows; ++row) {
      for (int column = 0; column < d.columns; ++column) {
        const double sum =
            std::inner_product(a.begin() + row * k_end, a.begin() + (row + 1) * k_end,
                               b.begin() + column * k_end, 0.0);
        if (!sums.empty()) sums[row / operands.sum_rows * d.columns + column] += sum;
        double value = operands.coefficients.alpha * sum;
        if (operands.coefficients.beta != 0) {
          value += operands.coefficients.beta * c[row * d.columns + column];
        }
        expected[std::int64_t{row} * d.pitch + column] =
            static_cast<Bf16>(emulator::narrow(emulator::format::bf16, value));
      }
      std::fill_n(&expected[std::int64_t{row} * d.pitch + d.columns], filled - d.columns, Bf16{0});
    }
    for (std::size_t i = 0; i < expected.size(); ++i) {
      // -0 and 0 are equal.
      if (expected[i] == d.data[i] || ((expected[i] | d.data[i]) & 0x7FFF) == 0) continue;
      const auto value = [](Bf16 bits) { return emulator::widen(emulator::format::bf16, bits); };
      note_wrong(result, "D", static_cast<int>(i) / d.pitch, static_cast<int>(i) % d.pitch,
                 value(d.data[i]), value(expected[i]));
    }
    for (std::size_t i = 0; i < sums.size(); ++i) {
      if (operands.sums[i] == sums[i]) continue;
      note_wrong(result, "sums", static_cast<int>(i) / d.columns, static_cast<int>(i) % d.columns,
                 operands.sums[i], sums[i]);
    }
  }

  emulator::Machine machine;
  emulator::Checker checker;
  const Family* family = nullptr;
  std::optional<emulator::Module> own_module;  ///< of Setup::ptx
  const emulator::Module* module = nullptr;
  const emulator::Function* kernel = nullptr;
  std::vector<int> numbers;
  Operands operands;
};

Workbench::Workbench(const Setup& setup) : state_(std::make_unique<State>(setup)) {}
Workbench::~Workbench() = default;

const emulator::Module& Workbench::module() const {
  return *state_->module;
}

Result Workbench::launch(emulator::Schedule schedule, std::uint64_t seed) {
  State& state = *state_;
  state.fill(seed);
  state.machine.options().schedule = schedule;
  state.machine.options().seed = seed;
  const Launch launch = state.family->prepare(state.operands, state.numbers);
  const std::vector<std::span<const std::byte>> arguments(launch.arguments.begin(),
                                                          launch.arguments.end());
  const emulator::Outcome outcome =
      state.machine.launch(*state.module, *state.kernel, launch.geometry,
                           emulator::pack_parameters(*state.kernel, arguments), &state.checker);
  Result result{.ending = outcome.ending,
                .findings = state.checker.findings(outcome.findings),
                .first_wrong = {}};
  state.compare(result);
  return result;
}

std::string opcode_at(const emulator::Module& module, const emulator::Finding& finding) {
  for (const emulator::Function& function : module.functions) {
    for (const emulator::Instruction& instruction : function.instructions) {
      if (instruction.location.ptx_line == finding.location.ptx_line) {
        return std::string(instruction.text);
      }
    }
  }
  return "";
}

std::string text(const emulator::Module& module, const Result& result) {
  static constexpr const char* endings[] = {"finished", "fault", "out of time"};
  std::string all = endings[static_cast<int>(result.ending)];
  if (result.wrong != 0) {
    all += ", " + std::to_string(result.wrong) + " wrong values: " + result.first_wrong;
  }
  return all + "\n" + emulator::describe(module, result.findings);
}

}  // namespace workbench
