"""Draws who computes what, as a lesson's --print-schedule prints it.

--view order: the tiles of D in the order in which they are taken, a colour for each wave.
--view pieces: what each CTA computes, one after the other, if each k-tile took the same time and
nobody waited. Nothing here is measured. A first line `# COMMAND` in a file becomes a panel's title.
"""

import csv
import dataclasses
import pathlib

import command
import picture
import results

COLUMNS = ["cta", "number", "row", "column", "k_begin", "k_count", "k_step"]
MOST_TILES, MOST_CTAS = 400, 40  # that a panel has room for

# The layout, in inches.
_TOP, _FOOT, _LEFT, _RIGHT, _GAP, _TITLE = 0.85, 0.4, 0.55, 0.3, 0.35, 0.3
_CELL, _BAR, _AXIS = 0.3, 0.27, 0.5


@dataclasses.dataclass(frozen=True)
class Piece:
    """A line of the file."""

    cta: int
    number: int
    row: int
    column: int
    k_begin: int
    k_count: int
    k_step: int

    @property
    def tile(self):
        return self.row, self.column

    @property
    def first(self):
        """The lowest of its k-tiles."""
        return self.k_begin if self.k_step > 0 else self.k_begin - self.k_count + 1


@dataclasses.dataclass(frozen=True)
class Schedule:
    path: pathlib.Path
    command: str  # that printed it, or empty
    pieces: tuple

    @property
    def rows(self):
        return 1 + max(piece.row for piece in self.pieces)

    @property
    def columns(self):
        return 1 + max(piece.column for piece in self.pieces)

    @property
    def ctas(self):
        return 1 + max(piece.cta for piece in self.pieces)

    @property
    def k_tiles(self):
        """Of a tile."""
        return max(piece.first + piece.k_count for piece in self.pieces)

    def in_order(self):
        """The pieces as they are begun, if each CTA takes as long for one."""
        return sorted(self.pieces, key=lambda piece: (piece.number, piece.cta))

    def of_cta(self, cta):
        own = [piece for piece in self.pieces if piece.cta == cta]
        return sorted(own, key=lambda piece: piece.number)


def main():
    parser = command.Parser(
        description=__doc__.split("\n\n")[0], files="what --print-schedule printed, a panel each"
    )
    parser.add_argument("--view", choices=VIEWS, required=True, help="what is drawn")
    parser.add_output("schedule.png")
    arguments = parser.parse_args()
    schedules = [read(pathlib.Path(path)) for path in arguments.files]
    picture.save(VIEWS[arguments.view](schedules), arguments.output)


def read(path):
    """Throws BadResults."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise results.BadResults(f"{path}: cannot be read ({error})") from None
    title = lines.pop(0).removeprefix("#").strip() if lines and lines[0].startswith("#") else ""
    if not lines or lines[0].split(",") != COLUMNS:
        raise results.BadResults(f"{path}: is not what --print-schedule prints")
    pieces = []
    for number, cells in enumerate(csv.reader(lines[1:]), 1):
        if len(cells) != len(COLUMNS) or not all(
            cell.removeprefix("-").isdecimal() for cell in cells
        ):
            raise results.BadResults(f"{path}: piece {number} is {','.join(cells)}")
        pieces.append(Piece(*map(int, cells)))
    if not pieces:
        raise results.BadResults(f"{path}: there is nothing to do")
    schedule = Schedule(path, title, tuple(pieces))
    _require_once(schedule)
    return schedule


def _require_once(schedule):
    """Each k-tile of each tile is computed once: a part of a file would be drawn as a schedule."""
    done = set()
    for piece in schedule.pieces:
        own = {(*piece.tile, piece.first + i) for i in range(piece.k_count)} or {(*piece.tile, 0)}
        if own & done:
            row, column, k = min(own & done)
            raise results.BadResults(
                f"{schedule.path}: k-tile {k} of tile {row}, {column} is computed twice"
            )
        done |= own
    missing = schedule.rows * schedule.columns * max(schedule.k_tiles, 1) - len(done)
    if missing:
        raise results.BadResults(f"{schedule.path}: nobody computes {missing} of the k-tiles")


def _title(schedule):
    return schedule.command or command.near(schedule.path).name


def _footer(schedules):
    printed = "printed by the lesson" if all(s.command for s in schedules) else "from files"
    return f"Not measured: schedules as --print-schedule prints them, {printed}."


def _panels(fig, sizes, beside):
    """Axes of these widths and heights (inches), beside or below each other."""
    width, height = fig.get_size_inches()
    left, top = _LEFT, height - _TOP - _TITLE
    for own_width, own_height in sizes:
        box = (left / width, (top - own_height) / height, own_width / width, own_height / height)
        yield fig.add_axes(box)
        if beside:
            left += own_width + _GAP
        else:
            top -= own_height + _AXIS + _TITLE


def draw_order(schedules):
    """A panel each, side by side: a cell a tile, and a line through them."""
    for schedule in schedules:
        tiles = schedule.rows * schedule.columns
        if tiles > MOST_TILES:
            raise results.BadResults(
                f"{schedule.path}: {tiles} tiles do not fit, at most {MOST_TILES}; print a smaller D"
            )
    sizes = [(_CELL * schedule.columns, _CELL * schedule.rows) for schedule in schedules]
    fig = picture.figure(
        title="In which order the tiles of D are taken",
        subtitle="A colour for each wave, the tiles that are computed at the same time; "
        "the number is a wave's first tile.",
        footer=_footer(schedules),
        width=max(8, _LEFT + sum(width + _GAP for width, _ in sizes) - _GAP + _RIGHT),
        height=_TOP + _TITLE + max(height for _, height in sizes) + _FOOT,
    )
    for schedule, axes in zip(schedules, _panels(fig, sizes, beside=True)):
        _draw_order(axes, schedule)
    return fig


def _draw_order(axes, schedule):
    axes.set_title(_flags(schedule), fontsize=9, loc="left")
    axes.set_xlim(0, schedule.columns)
    axes.set_ylim(schedule.rows, 0)
    axes.grid(False)
    axes.set_xticks([])
    axes.set_yticks([])
    pieces = schedule.in_order()
    for piece in pieces:
        colour = picture.COLOURS[piece.number % len(picture.COLOURS)]
        cell = {"facecolor": colour, "edgecolor": "white", "alpha": 0.45, "linewidth": 1}
        axes.bar(piece.column + 0.5, 1, width=1, bottom=piece.row, **cell)
    axes.plot(
        [piece.column + 0.5 for piece in pieces],
        [piece.row + 0.5 for piece in pieces],
        color=picture.INK,
        linewidth=0.9,
    )
    for index, piece in enumerate(pieces):
        if index == 0 or piece.number != pieces[index - 1].number:
            axes.text(
                piece.column + 0.5, piece.row + 0.5, index, ha="center", va="center", fontsize=8,
                bbox={"facecolor": "white", "edgecolor": "none", "pad": 1},
            )  # fmt: skip


def _flags(schedule):
    """The knobs of a command, as short as a narrow panel wants it."""
    words = _title(schedule).split()
    shared = {"--m", "--n", "--k", "--print-schedule"}
    pairs = [pair for pair in zip(words[1::2], words[2::2]) if pair[0] not in shared]
    return " ".join(word for pair in pairs for word in pair) or _title(schedule)


def draw_pieces(schedules):
    """A panel each, below each other: a row a CTA."""
    for schedule in schedules:
        if schedule.ctas > MOST_CTAS:
            raise results.BadResults(
                f"{schedule.path}: {schedule.ctas} CTAs do not fit, at most {MOST_CTAS}"
            )
    width = 11
    inside = width - _LEFT - _RIGHT
    sizes = [(inside, _BAR * schedule.ctas) for schedule in schedules]
    fig = picture.figure(
        title="Which CTA computes which k-tiles of which tile",
        subtitle="Of a tile: its number, row by row; where it is cut also which of its k-tiles. "
        "Pale: given away. Framed: its owner adds what others give.",
        footer=_footer(schedules) + " As if each k-tile took the same time, and nobody waited.",
        width=width,
        height=_TOP + sum(height + _AXIS + _TITLE for _, height in sizes) + _FOOT,
    )
    longest = max(_length(schedule, cta) for schedule in schedules for cta in range(schedule.ctas))
    for schedule, axes in zip(schedules, _panels(fig, sizes, beside=False)):
        _draw_pieces(axes, schedule, longest)
    return fig


def _length(schedule, cta):
    return sum(piece.k_count for piece in schedule.of_cta(cta))


def _draw_pieces(axes, schedule, longest):
    axes.set_title(_title(schedule), fontsize=9, loc="left")
    axes.set_xlim(0, max(longest, 1))
    axes.set_ylim(schedule.ctas - 0.5, -0.5)
    axes.set_yticks(range(schedule.ctas), [f"CTA {cta}" for cta in range(schedule.ctas)], fontsize=8)
    axes.set_xlabel("k-tiles")
    if longest <= 20 * schedule.k_tiles:
        axes.set_xticks(range(0, longest + 1, max(schedule.k_tiles, 1)))
    axes.grid(False, axis="y")
    for cta in range(schedule.ctas):
        begin = 0
        for piece in schedule.of_cta(cta):
            _draw_piece(axes, schedule, piece, begin)
            begin += piece.k_count


def _draw_piece(axes, schedule, piece, begin):
    tile = piece.row * schedule.columns + piece.column
    is_whole = piece.k_count == schedule.k_tiles
    is_given = piece.first + piece.k_count < schedule.k_tiles
    axes.barh(
        piece.cta,
        piece.k_count,
        left=begin,
        height=0.8,
        facecolor=picture.COLOURS[tile % len(picture.COLOURS)],
        alpha=0.35 if is_given else 0.8,
        edgecolor="white" if is_whole or is_given else picture.INK,
        linewidth=1,
        zorder=2 if is_whole or is_given else 3,
    )
    wide = f"{tile}: {piece.first} to {piece.first + piece.k_count - 1}"
    text = str(tile) if is_whole else wide
    room = piece.k_count / axes.get_xlim()[1] * axes.get_window_extent().width
    if room < 0.065 * axes.figure.dpi * len(text):
        text = str(tile)
    axes.text(
        begin + piece.k_count / 2, piece.cta, text, ha="center", va="center", fontsize=8, zorder=4
    )


VIEWS = {"order": draw_order, "pieces": draw_pieces}


if __name__ == "__main__":
    command.run(main)
