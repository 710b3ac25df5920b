#!/bin/sh
# Fails if nvcc or ptxas warned in $1, the log of a lesson's compilation. The messages C75xx are
# mere "info" to ptxas, but they say that it serialized wgmma or ignored setmaxnreg: the kernel
# would be right, and slow for a reason that its source does not show. Kernels that are there to be
# warned about are named in ptxas_exceptions.txt.
exceptions=$(sed '/^#/d; s/ .*//' "$(dirname "$0")/ptxas_exceptions.txt")
if grep -E '\(C75[0-9][0-9]\)|[Ww]arning' "$1" | grep -vE -e "${exceptions:-^$}" >&2; then
  echo "The compiler warned (the whole log: $1). A lesson must compile without a warning." >&2
  exit 1
fi
