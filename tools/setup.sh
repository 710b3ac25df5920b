#!/bin/sh
# Installs into .venv what the tests and plots need and this machine lacks, and says what is used.
# Nothing is fetched that is there already: offline, this works on a machine that lacks nothing.
#
#   tools/setup.sh           matplotlib, Catch2 and a disassembler; reports the CUDA compiler
#   tools/setup.sh toolkit   the CUDA compiler of tools/toolkit.txt
set -eu
cd "$(dirname "$0")/.."

python=.venv/bin/python

say() { printf '%s\n' "$*" >&2; }

fail() {
  say "$@"
  exit 1
}

report() { printf '%-11s %s\n' "$1" "$2"; }

# Installs a Debian package where that needs nobody's password; else returns 1.
apt_install() {
  command -v apt-get >/dev/null || return 1
  if [ "$(id -u)" = 0 ]; then
    as_root='env'
  elif sudo -n true 2>/dev/null; then
    as_root='sudo -n env'
  else
    return 1
  fi
  echo "Installing $1 with apt-get ..."
  apt="$as_root DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=120"
  install="$apt install -y --no-install-recommends $1"
  { $install || { $apt update && $install; }; } >/dev/null 2>&1
}

has_pip() { $python -m pip --version >/dev/null 2>&1; }

# pip_install WHAT ARGUMENT...: runs pip in .venv, after getting pip where Python came without it.
pip_install() {
  echo "Installing $1 from PyPI ..."
  if ! has_pip && ! $python -m ensurepip >/dev/null 2>&1; then
    apt_install python3-pip || true
    has_pip || {
      say "Python's pip is missing. Install it (Debian and Ubuntu: apt-get install python3-pip)."
      return 1
    }
  fi
  shift
  $python -m pip install --quiet --retries 1 --disable-pip-version-check "$@" >&2
}

# A virtual environment that sees the system's packages, so that they need not be installed again.
# It is made without pip: Debian's Python has none to put there, and often none is needed.
set_up_python() {
  recent='import sys; assert sys.version_info >= (3, 10)'
  $python -c "$recent" 2>/dev/null && return
  python3 -c "$recent" 2>/dev/null || fail "Python 3.10 or newer is needed, as python3 in PATH."
  rm -f .venv/bin/python*
  python3 -m venv --without-pip --system-site-packages .venv ||
    fail "python3 can't make a virtual environment. Install its venv module (Debian and Ubuntu:
apt-get install python3-venv) and run \`make setup\` again."
  # Where python3 is itself in a virtual environment, "the system's" would leave out that one's.
  python3 -c 'import site; print(*site.getsitepackages(), sep="\n")' \
    >"$($python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/python3.pth"
}

matplotlib_version() {
  $python -c 'import matplotlib
assert matplotlib.__version_info__ >= (3, 5)
print(matplotlib.__version__)' 2>/dev/null
}

set_up_matplotlib() {
  version=$(matplotlib_version) ||
    { pip_install matplotlib --upgrade 'matplotlib>=3.5' && version=$(matplotlib_version); } ||
    fail "matplotlib could not be installed. The plots and their tests need 3.5 or newer."
  report matplotlib "$version"
}

# The header that tests/catch.h will include.
catch2_header() {
  printf '#if __has_include(<%s>)\n#include <%s>\n#else\n#include <%s>\n#endif\n' \
    catch2/catch_test_macros.hpp catch2/catch_test_macros.hpp catch2/catch.hpp |
    ${CXX:-g++} -std=c++20 -M -MG -x c++ -isystem .venv/catch2/catch2/install/include - |
    tr ' ' '\n' | grep -m 1 '/catch2/catch'
}

pip_install_catch2() {
  # The package is a C++ header, whatever Python it asks for.
  pip_install Catch2 --target .venv/catch2 --no-deps --only-binary=:all: --ignore-requires-python \
    'comma-deps-catch2>=2.13.10'
}

set_up_catch2() {
  header=$(catch2_header) ||
    { apt_install catch2 && header=$(catch2_header); } ||
    { pip_install_catch2 && header=$(catch2_header); } ||
    fail "Catch2 could not be installed. The unit tests need it, v2 or v3, in a folder that
${CXX:-g++} searches (Debian and Ubuntu: apt-get install catch2)."
  report Catch2 "$header"
}

# toolchain VARIABLE: what tools/toolchain.sh says it is.
toolchain() { tools/toolchain.sh | sed -n "s/^$1 := //p"; }

# Reads the machine code that ptxas wrote, for the compile contract. Most toolkits have one.
set_up_disassembler() {
  nvcc=$(toolchain NVCC_PATH 2>/dev/null)
  nvdisasm=$(command -v nvdisasm || command -v "$(dirname "$nvcc")/nvdisasm") ||
    nvdisasm=.venv/nvdisasm/nvidia/cu13/bin/nvdisasm
  [ -x "$nvdisasm" ] ||
    pip_install nvdisasm --target .venv/nvdisasm --upgrade 'nvidia-cuda-nvdisasm>=13.2.78' || true
  if [ -x "$nvdisasm" ]; then
    ln -sf "$(realpath "$nvdisasm")" .venv/bin/nvdisasm
    report nvdisasm "$nvdisasm"
  else
    report nvdisasm "none: the tests will not look at the lessons' machine code"
  fi
}

report_toolkit() {
  tools/toolchain.sh >/dev/null
  report nvcc "$(toolchain NVCC_PATH), CUDA $(toolchain NVCC_VERSION)"
}

install_toolkit() {
  rm -rf .venv/toolkit
  pip_install "the CUDA compiler" --target .venv/toolkit -r tools/toolkit.txt ||
    fail "The CUDA compiler could not be installed from PyPI."
  nvcc=.venv/toolkit/nvidia/cu13/bin/nvcc
  touch $nvcc
  report nvcc "$nvcc, used where no other one is found; to prefer it: make NVCC=$nvcc"
}

set_up_python
if [ "${1:-}" = toolkit ]; then
  install_toolkit
else
  set_up_matplotlib
  set_up_catch2
  set_up_disassembler
  report_toolkit
fi
