#!/bin/sh
# Finds the CUDA toolkit and prints, as Makefile variables, where its parts are.
#
# Looks at NVCC, CUDA_HOME, PATH, /usr/local/cuda and .venv (make toolkit), in this order. The rest
# is derived from the nvcc found: toolkits keep their libraries in lib64 (NVIDIA's installer), in
# lib (PyPI) or in targets/*/lib (conda). Without a usable toolkit: a sentence on stderr, status 1.
set -eu

project=$(cd "$(dirname "$0")/.." && pwd)
local_nvcc=.venv/toolkit/nvidia/cu13/bin/nvcc
get_one="Install the CUDA toolkit, 12.0 or newer (https://developer.nvidia.com/cuda-downloads), or \
run \`make toolkit\`, which puts a compiler from PyPI into .venv."
get_another="$get_one Then name its nvcc: make NVCC=$local_nvcc, for example."

fail() {
  printf '%s\n' "$*" | fold -s -w 100 >&2
  exit 1
}

find_nvcc() {
  if [ -n "${NVCC:-}" ]; then
    command -v "$NVCC" || fail "NVCC is set to '$NVCC', which can't be run. Correct or unset it."
  elif [ -n "${CUDA_HOME:-}" ]; then
    command -v "$CUDA_HOME/bin/nvcc" ||
      fail "CUDA_HOME is set to '$CUDA_HOME', which has no bin/nvcc. Correct or unset it."
  else
    command -v nvcc || command -v /usr/local/cuda/bin/nvcc || command -v "$project/$local_nvcc" ||
      fail "There is no CUDA compiler: NVCC and CUDA_HOME are not set, and neither PATH nor \
/usr/local/cuda/bin has an nvcc. $get_one"
  fi
}

dry_run() { "$nvcc" -ccbin "$host_compiler" --dryrun -x cu -c /dev/null 2>&1; }

# The folder that nvcc calls its toolkit; nothing where it can't find its own parts.
toolkit_root() { dry_run | sed -n 's/^#\$ TOP=//p'; }

# The first of the folders $2... that has a file $1.
folder_with() {
  file=$1
  shift
  for folder; do
    if [ -e "$folder/$file" ]; then
      (cd "$folder" && pwd)
      return
    fi
  done
  return 1
}

host_compiler=${CUDAHOSTCXX:-${CXX:-g++}}
command -v "$host_compiler" >/dev/null ||
  fail "The C++ compiler '$host_compiler' can't be run. Install g++ 11 or newer, or set CXX."

nvcc=$(find_nvcc)
version=$("$nvcc" --version 2>/dev/null | sed -n 's/.*release \([0-9.]*\).*/\1/p')
[ -n "$version" ] || fail "$nvcc does not work: it does not tell its version. $get_another"
[ "${version%%.*}" -ge 12 ] ||
  fail "$nvcc is of CUDA $version, too old for Hopper's instructions and C++20. $get_another"

root=$(toolkit_root)
if [ -z "$root" ]; then
  nvcc=$(readlink -f "$nvcc")  # called through a link, nvcc looks for its parts beside the link
  root=$(toolkit_root)
fi
[ -n "$root" ] || fail "$nvcc does not work with the C++ compiler '$host_compiler': it says
$(dry_run | head -n 3)
Name a compiler that it supports: make CUDAHOSTCXX=g++-12, for example."

include=$(folder_with cuda_runtime.h "$root/include" "$root"/targets/*/include) ||
  fail "The toolkit of $nvcc is not whole: there is no cuda_runtime.h under $root. $get_another"
[ -e "$include/cublas_v2.h" ] ||
  fail "The toolkit of $nvcc is not whole: $include has no cublas_v2.h. $get_another"

set -- "$root/lib64" "$root/lib" "$root"/targets/*/lib
runtime=$(folder_with libcudart_static.a "$@") ||
  fail "The toolkit of $nvcc is not whole: no libcudart_static.a in $*. $get_another"
# cuBLAS is loaded by a lesson that runs; one that is only built does without.
cublas=$(folder_with "libcublas.so.${version%%.*}" "$@") || cublas=$runtime

cat <<EOF
NVCC_PATH := $nvcc
NVCC_VERSION := $version
CUDA_INCLUDE := $include
CUDART_FOLDER := $runtime
CUBLAS_FOLDER := $cublas
EOF
