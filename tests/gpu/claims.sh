#!/bin/sh
# Measures what docs/claims.md quotes and `make bench` does not: shares of a CTA's time, from traces.
# Usage: tests/gpu/claims.sh >>plots/data/<gpu>/claims.txt (the lessons must be built)
set -eu
cd "$(dirname "$0")/../.."
trace=build/claims_trace.json

# lesson, M, N, K, further flags
shares() {
  echo "$*"
  lesson=$1 m=$2 n=$3 k=$4
  shift 4
  "./$lesson" --check-only --m "$m" --n "$n" --k "$k" --trace $trace "$@" >/dev/null
  python3 tests/gpu/trace_shares.py $trace
}

shares lesson03 128 128 4096 --trace-sms 132
shares lesson05 4096 4096 4096
for k in 512 4096; do
  shares lesson07 4096 4096 $k
  shares lesson08 4096 4096 $k
done
for k in 64 128 192 256 320 384 512; do
  shares lesson08 4096 4096 $k
  shares lesson08 4096 4096 $k --beta 1
done
for walk in backwards forwards; do
  shares lesson11 2176 2176 4096 --split hybrid --walk $walk
done
# One CTA an SM: nobody takes turns with it.
./lesson03 --bench --m 1408 --n 1536 --k 8192
./lesson03 --bench --tile 64x64 --m 704 --n 768 --k 8192
