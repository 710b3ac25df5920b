"""Which toolkit tools/toolchain.sh finds, and what it says when there is none that can be used."""

import shutil
import unittest

from fake_toolkit import ProjectTest, make_toolkit, write


class ToolchainTest(ProjectTest):
    def find(self, **settings):
        """The variables that the script prints."""
        result = self.run_here("tools/toolchain.sh", **settings)
        self.assertEqual(result.returncode, 0, result.stderr)
        return dict(line.split(" := ") for line in result.stdout.splitlines())

    def complaint(self, **settings):
        """What the script says when it fails, on one line."""
        result = self.run_here("tools/toolchain.sh", **settings)
        self.assertEqual(result.returncode, 1, result.stdout)
        self.assertEqual(result.stdout, "")
        return " ".join(result.stderr.split())

    def test_layouts(self):
        for number, (include, libraries) in enumerate(
            [
                ("include", "lib64"),
                ("include", "lib"),
                ("include", "targets/x86_64-linux/lib"),
                ("targets/x86_64-linux/include", "targets/x86_64-linux/lib"),
                ("targets/sbsa-linux/include", "targets/sbsa-linux/lib"),
            ]
        ):
            with self.subTest(include=include, libraries=libraries):
                root = self.temporary / f"toolkit{number}"
                nvcc = make_toolkit(root, include=include, libraries=libraries)
                self.assertEqual(
                    self.find(path=[root / "bin"]),
                    {
                        "NVCC_PATH": str(nvcc),
                        "NVCC_VERSION": "13.0",
                        "CUDA_INCLUDE": str(root / include),
                        "CUDART_FOLDER": str(root / libraries),
                        "CUBLAS_FOLDER": str(root / libraries),
                    },
                )

    def test_a_library_folder_without_the_runtime_is_passed_over(self):
        root = self.temporary / "conda"
        make_toolkit(root, libraries="targets/x86_64-linux/lib")
        write(root / "lib/libcublas.so.13", "")
        found = self.find(path=[root / "bin"])
        self.assertEqual(found["CUDART_FOLDER"], str(root / "targets/x86_64-linux/lib"))
        self.assertEqual(found["CUBLAS_FOLDER"], str(root / "lib"))

    def test_search_order(self):
        named = make_toolkit(self.temporary / "named")
        home = make_toolkit(self.temporary / "home")
        first = make_toolkit(self.temporary / "first")
        second = make_toolkit(self.temporary / "second")
        machine = make_toolkit(self.machine)
        local = make_toolkit(self.project / ".venv/toolkit/nvidia/cu13")

        settings = {
            "NVCC": named,
            "CUDA_HOME": home.parent.parent,
            "path": [first.parent, second.parent],
        }
        self.assertEqual(self.find(**settings)["NVCC_PATH"], str(named))
        del settings["NVCC"]
        self.assertEqual(self.find(**settings)["NVCC_PATH"], str(home))
        del settings["CUDA_HOME"]
        self.assertEqual(self.find(**settings)["NVCC_PATH"], str(first))
        del settings["path"]
        self.assertEqual(self.find()["NVCC_PATH"], str(machine))
        shutil.rmtree(self.machine)
        self.assertEqual(self.find()["NVCC_PATH"], str(local))

    def test_a_symbolic_link_leads_to_the_toolkit(self):
        nvcc = make_toolkit(self.temporary / "toolkit")
        links = self.temporary / "links"
        links.mkdir()
        (links / "nvcc").symlink_to(nvcc)
        self.assertEqual(self.find(path=[links])["NVCC_PATH"], str(nvcc))

    def test_no_toolkit(self):
        complaint = self.complaint()
        self.assertIn("There is no CUDA compiler", complaint)
        self.assertIn("make toolkit", complaint)

    def test_a_wrong_setting_is_named(self):
        make_toolkit(self.machine)
        self.assertIn("NVCC is set to '/no/nvcc'", self.complaint(NVCC="/no/nvcc"))
        self.assertIn("CUDA_HOME is set to '/no/home'", self.complaint(CUDA_HOME="/no/home"))

    def test_an_old_toolkit(self):
        make_toolkit(self.machine, version="11.8")
        self.assertIn("is of CUDA 11.8, too old", self.complaint())

    def test_a_part_of_a_toolkit(self):
        for part in ("include/cuda_runtime.h", "include/cublas_v2.h", "lib64/libcudart_static.a"):
            with self.subTest(missing=part):
                make_toolkit(self.machine)
                (self.machine / part).unlink()
                complaint = self.complaint()
                self.assertIn("is not whole", complaint)
                self.assertIn(part.split("/")[1], complaint)

    def test_no_host_compiler(self):
        make_toolkit(self.machine)
        self.assertIn("'g++-0' can't be run", self.complaint(CXX="g++-0"))
        self.assertIn("'g++-0' can't be run", self.complaint(CUDAHOSTCXX="g++-0"))


if __name__ == "__main__":
    unittest.main()
