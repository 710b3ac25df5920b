#!/bin/sh
# Reads the hardware counters that the notes quote, with Nsight Compute, and prints a table.
# Usage: tests/gpu/profile.sh >plots/data/<gpu>/profile.txt (the lessons must be built)
set -eu
cd "$(dirname "$0")/../.."

metrics=sm__cycles_elapsed.max
metrics=$metrics,sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed
metrics=$metrics,l1tex__data_pipe_lsu_wavefronts.avg.pct_of_peak_sustained_elapsed
metrics=$metrics,smsp__issue_active.avg.pct_of_peak_sustained_active
metrics=$metrics,smsp__inst_executed.sum
metrics=$metrics,sm__warps_active.avg.pct_of_peak_sustained_active
metrics=$metrics,smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio
metrics=$metrics,smsp__average_warps_issue_stalled_barrier_per_issue_active.ratio
metrics=$metrics,dram__bytes_read.sum,lts__t_sectors_op_read.sum,l1tex__m_xbar2l1tex_read_bytes.sum

profile() {
  echo "$ ./$*"
  ncu --clock-control none --metrics "$metrics" -k regex:gemm_ -c 1 "./$@" --check-only \
    --m 4096 --n 4096 --k 4096 | awk '/^ +(sm|l1tex|dram|lts)/ { print "  " $1, $NF, (NF > 2 ? $2 : "") }'
}

# A narrower wgmma reads its tile of A more often.
for width in 64 128 256; do
  echo "$ ./lesson00 --bench --width $width"
  ./lesson00 --bench --width $width | grep -E '^(copy|wgmma|ridge)'
done
profile lesson01 --walk element
profile lesson01 --walk chunk
profile lesson01 --walk rotated
for tile in 64x64 64x128 64x256 128x128; do
  profile lesson02 --tile $tile
  profile lesson03 --tile $tile
done
for lesson in lesson04 "lesson04 --stages 4" lesson05 "lesson06 --consumers 1" lesson06 lesson07 \
    lesson08; do
  profile $lesson
done
