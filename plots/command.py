"""What the programs in this directory share on the command line."""

import argparse
import os
import pathlib
import sys
import tempfile

import results


class MissingMatplotlib(Exception):
    """matplotlib can't be imported. Exit status 3."""


class Parser(argparse.ArgumentParser):
    """A parser of files and options, whose usage errors are one line."""

    def __init__(self, description, files=None, reads_files=True):
        """`files` says which files must be named; without it they are those of the measurements."""
        super().__init__(
            description=description,
            epilog="Exit status: 0 done; 1 a table is stale; 2 bad input; 3 no matplotlib.",
        )
        if not reads_files:
            return
        if files:
            self.add_argument("files", metavar="FILE", nargs="+", help=files)
            return
        measurements = near(results.MEASUREMENTS)
        self.add_argument(
            "files",
            metavar="FILE",
            nargs="*",
            default=[measurements],
            help=f"result files, or directories of them (default: {measurements})",
        )

    def add_output(self, name):
        default = near(results.REPOSITORY / "docs" / "images" / name)
        self._add_output(default, default)

    def add_derived_output(self, default):
        """An output whose default the program derives from its files; None until it does."""
        self._add_output(None, default)

    def _add_output(self, default, described):
        self.add_argument(
            "-o",
            "--output",
            type=_png,
            default=default,
            help=f"the picture, a PNG (default: {described})",
        )

    def add_selection(self):
        """--init and --protocol: times of different ones are not comparable."""
        self.add_argument("--init", default="normal", help="which inputs (default: normal)")
        self.add_argument(
            "--protocol",
            choices=("interleaved", "sustained"),
            default="interleaved",
            help="how it was timed (default: interleaved)",
        )

    def error(self, message):
        self.exit(2, f"{self.prog}: {message}; see {self.prog} --help\n")


def select(loaded, arguments, plain=True):
    """Leaves out of `loaded` what add_selection()'s options do not ask for, and where `plain` all
    problems that are more or less than D = A * B^T."""
    loaded.keep_runs(
        lambda run: run.problem.init == arguments.init,
        f"on other inputs than {arguments.init} (--init)",
    )
    loaded.keep_runs(
        lambda run: run.protocol == arguments.protocol,
        f"timed otherwise than {arguments.protocol} (--protocol)",
    )
    if plain:
        loaded.keep_runs(lambda run: run.problem.is_plain, "of another problem than D = A·Bᵀ")


def near(path):
    """The path as one would type it here."""
    return pathlib.Path(os.path.relpath(path))


def say(message):
    """One line on stderr, after the program's name."""
    print(f"{pathlib.Path(sys.argv[0]).name}: {message}", file=sys.stderr)


def replace(path, content):
    """Writes `content` (bytes) beside `path` and renames it, so that a failure leaves an old file
    whole. Throws BadResults."""
    temporary = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except OSError as error:
        if temporary:
            pathlib.Path(temporary).unlink(missing_ok=True)
        raise results.BadResults(f"{path}: cannot be written ({error.strerror})") from None


def run(main):
    """Runs `main` and ends the process: 0 or what `main` returns, 2 on bad input, 3 without
    matplotlib."""
    try:
        status = main()
    except results.BadResults as error:
        say(error)
        status = 2
    except MissingMatplotlib as error:
        say(error)
        status = 3
    sys.exit(status)


def _png(text):
    path = pathlib.Path(text)
    if path.suffix != ".png":
        raise argparse.ArgumentTypeError(f"{text} does not end in .png")
    return path
