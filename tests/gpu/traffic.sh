#!/bin/sh
# Counts the bytes that scheduling is about, with Nsight Compute, from cold caches: those read from
# DRAM, those looked up in the L2 (sectors of 32 bytes) with the share that hit, and those delivered
# to the SMs; and how many CTAs there are.
# Usage: tests/gpu/traffic.sh >plots/data/<gpu>/traffic.txt (the lessons must be built)
set -eu
cd "$(dirname "$0")/../.."

metrics=launch__grid_size,sm__cycles_elapsed.max,dram__bytes_read.sum,lts__t_sectors_op_read.sum
metrics=$metrics,lts__t_sector_op_read_hit_rate.pct,l1tex__m_xbar2l1tex_read_bytes.sum

# Of the first launch; there is no need for a second one, nor for a verdict.
traffic() {
  echo "$ ./$*"
  ncu --clock-control none --metrics "$metrics" -k regex:gemm_ -c 1 --kill yes "./$@" --check-only |
    awk '/^ +(launch|sm|l1tex|dram|lts)/ { print "  " $1, $NF, (NF > 2 ? $2 : "") }'
}

for size in 4096 8192; do
  shape="--m $size --n $size --k $size"
  for raster in n m; do
    for swizzle in 1 2 4 8 16; do
      traffic lesson09 $shape --raster $raster --swizzle $swizzle
    done
  done
  traffic lesson09 $shape --serpentine on
  traffic lesson09 $shape --persistent off --raster n --swizzle 1
  for cluster in 1x1 2x1 1x2 4x1; do
    traffic lesson10 $shape --cluster $cluster
  done
done
for split in data-parallel hybrid stream-k; do
  traffic lesson11 --split $split
done
for groups in 2 4; do
  traffic lesson11 --split hybrid --groups $groups
  traffic lesson11 --split stream-k --groups $groups
done
