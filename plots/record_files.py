"""Result files as JSON: records whose fields are checked when they are read."""

import datetime
import json
import math
import pathlib


class BadResults(Exception):
    """Results that can't be used. The message is one line: where, what is wrong, what to do."""


class NoMeasurement(Exception):
    """A whole record that is no measurement; `reason` completes the phrase "2 records ..."."""

    def __init__(self, reason, detail=None):
        super().__init__(reason)
        self.reason = reason
        self.detail = detail


def files_in(paths):
    """The files among `paths`, and the .json and .jsonl files of the directories among them, but
    for traces (trace_*.json), which traces.py reads."""
    for path in map(pathlib.Path, paths):
        if not path.is_dir():
            yield path
            continue
        files = sorted(
            file
            for file in path.iterdir()
            if file.suffix in (".json", ".jsonl") and not file.name.startswith("trace_")
        )
        if not files:
            raise BadResults(f"{path}: there is no .json or .jsonl file in this directory")
        yield from files


def read(path):
    """The records of a .json or .jsonl file. Throws BadResults."""
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise BadResults(f"{path}: not a text file in UTF-8") from None
    except OSError as error:
        raise BadResults(f"{path}: cannot be read ({error.strerror})") from None
    if not text.strip():
        raise BadResults(f"{path}: the file is empty")
    if path.suffix == ".jsonl":
        lines = [(f"{path}:{number}", line) for number, line in enumerate(text.split("\n"), 1)]
        return [Fields(_parse(line, where), where) for where, line in lines if line.strip()]
    return [Fields(_parse(text, str(path)), str(path))]


def _parse(text, where):
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        if error.msg == "Extra data":
            raise BadResults(
                f"{where}: more than one record; put one a line into a .jsonl file"
            ) from None
        if error.pos >= len(text.rstrip()) or error.msg.startswith("Unterminated string"):
            raise BadResults(f"{where}: truncated, the record ends too early") from None
        raise BadResults(f"{where}: not JSON ({error.msg} at character {error.pos})") from None
    except (ValueError, RecursionError):
        raise BadResults(f"{where}: not a record that JSON can hold") from None


class Fields:
    """Typed access to a JSON object. Errors name the file, the line and the field."""

    def __init__(self, value, where, path=""):
        self.where = where
        self._path = path
        if not isinstance(value, dict):
            raise self._wrong_type(path, value, "an object")
        self._value = value

    def text(self, key):
        return self._typed(key, str, "a string")

    def optional_text(self, key):
        return None if self._get(key) is None else self.text(key)

    def integer(self, key, least=0):
        value = self._typed(key, int, "an integer")
        if value < least:
            raise BadResults(f"{self.where}: {self._path}{key} is {value}, below {least}")
        return value

    def number(self, key):
        """A finite number; NoMeasurement when it is null, NaN or infinite."""
        value = self._get(key)
        if value is None:
            raise self._not_finite(key, "null")
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise self._wrong_type(self._path + key, value, "a number")
        try:
            value = float(value)
        except OverflowError:
            value = math.inf
        if not math.isfinite(value):
            raise self._not_finite(key, str(value))
        return value

    def positive(self, key):
        value = self.number(key)
        if value <= 0:
            raise BadResults(f"{self.where}: {self._path}{key} is {value:g}, not above zero")
        return value

    def optional_number(self, key):
        return None if self._get(key) is None else self.number(key)

    def is_null(self, key):
        return self._get(key) is None

    def has(self, key):
        """Whether the field is there and not null: for fields that older records lack."""
        return self._value.get(key) is not None

    def child(self, key):
        return Fields(self._get(key), self.where, f"{self._path}{key}.")

    def children(self, key):
        values = self._typed(key, list, "an array")
        paths = (f"{self._path}{key}[{index}]." for index in range(len(values)))
        return [Fields(value, self.where, path) for value, path in zip(values, paths)]

    def strings(self, key):
        """An object whose values are strings, as sorted pairs."""
        child = self.child(key)
        return tuple((name, child.text(name)) for name in sorted(child._value))

    def date(self, key):
        """A UTC date and time."""
        text = self.text(key)
        try:
            return datetime.datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ")
        except ValueError:
            raise BadResults(
                f'{self.where}: {self._path}{key} is "{text}", not like 2025-01-31T12:00:00Z'
            ) from None

    def _get(self, key):
        if key not in self._value:
            raise BadResults(f"{self.where}: the field {self._path}{key} is missing")
        return self._value[key]

    def _typed(self, key, type_, name):
        value = self._get(key)
        if not isinstance(value, type_) or isinstance(value, bool):
            raise self._wrong_type(self._path + key, value, name)
        return value

    def _wrong_type(self, path, value, expected):
        names = {dict: "an object", list: "an array", str: "a string", bool: "a truth value"}
        got = "null" if value is None else names.get(type(value), "a number")
        return BadResults(
            f"{self.where}: {path.rstrip('.') or 'the record'} is {got}, not {expected}"
        )

    def _not_finite(self, key, value):
        return NoMeasurement(
            "without a finite number", f"first: {self._path}{key} is {value} in {self.where}"
        )
