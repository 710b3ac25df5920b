"""Toolkits made of a few small files, and a project to build with them."""

import os
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

# Like the real one, it knows its toolkit by the nvcc.profile beside it, also through the PATH but
# not through a symbolic link. "Compiling" leaves the files that the Makefile expects; what it then
# prints is in the file $PTXAS_LOG, and its arguments go to the file `arguments` beside it.
NVCC = """\
#!/bin/sh
here=$(cd "$(dirname "$0")" && pwd)
case "$*" in
  --version) echo "Cuda compilation tools, release {version}, V{version}.88"; exit ;;
  *--dryrun*) [ ! -e "$here/nvcc.profile" ] || echo "#$ TOP=$here/.." >&2; exit ;;
esac
echo "$*" >>"$here/arguments"
while [ $# -gt 0 ]; do
  case "$1" in
    -o) object=$2; shift ;;
    -MF) dependencies=$2; shift ;;
    -keep-dir) kept=$2; shift ;;
    *.cu) source=$1 ;;
  esac
  shift
done
name=$(basename "$source" .cu)
echo "// PTX of $name" >"$kept/$name.ptx"
echo "machine code" >"$kept/$name.cubin"
g++ -I. -MD -MF "$dependencies" -x c++ -c "$source" -o "$object" || exit
cat "$PTXAS_LOG"
"""


def write(path, text, executable=False):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    if executable:
        path.chmod(0o755)
    return path


def make_toolkit(root, version="13.0", include="include", libraries="lib64"):
    """A toolkit under `root` whose headers and libraries lie in these folders; returns its nvcc."""
    write(root / include / "cuda_runtime.h", "")
    write(root / include / "cublas_v2.h", "")
    write(root / libraries / "libcublas.so.13", "")
    subprocess.run(["ar", "rc", root / libraries / "libcudart_static.a"], check=True)
    write(root / "bin/nvcc.profile", "")
    return write(root / "bin/nvcc", NVCC.format(version=version), executable=True)


class ProjectTest(unittest.TestCase):
    """A test with a copy of the Makefile and its tools in `self.project`, a temporary folder. Its
    tools look for the machine's toolkit in `self.machine` rather than in /usr/local/cuda."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.temporary = Path(folder.name).resolve()
        self.project = self.temporary / "project"
        self.machine = self.temporary / "machine"
        shutil.copytree(ROOT / "tools", self.project / "tools")
        shutil.copy(ROOT / "Makefile", self.project)
        script = self.project / "tools/toolchain.sh"
        script.write_text(script.read_text().replace("/usr/local/cuda", str(self.machine)))

    def run_here(self, *command, path=(), **environment):
        """Runs a command in the project, with the folders `path` first in PATH and no toolkit named
        but in `environment`. Returns what subprocess.run() does."""
        clean = {"PATH": os.pathsep.join([*map(str, path), "/usr/bin", "/bin"])}
        return subprocess.run(
            command,
            cwd=self.project,
            env=clean | {name: str(value) for name, value in environment.items()},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
