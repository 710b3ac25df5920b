"""What the pictures share: matplotlib without a display, the style, labels that do not overlap."""

import io
import os

import command

# Okabe and Ito's colours, which colour-blind readers can tell apart; without the yellow, which
# is too faint for lines on white.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00")
INK = "#222222"
GREY = "#666666"

_STYLE = {
    "font.family": "DejaVu Sans",
    "font.size": 10,
    "text.color": INK,
    "axes.edgecolor": GREY,
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#E6E6E6",
    "grid.linewidth": 0.8,
    "axes.axisbelow": True,
    "xtick.color": INK,
    "ytick.color": INK,
    "xtick.major.size": 0,
    "ytick.major.size": 0,
    "xtick.minor.size": 0,
    "ytick.minor.size": 0,
    "lines.linewidth": 2,
    "lines.markersize": 7,
}


def figure(title, subtitle, footer, width=9, height=5.8):
    """An empty figure (inches) in the project's style, with its texts.

    Throws command.MissingMatplotlib. Nothing else here imports matplotlib, so bad data is reported
    first.
    """
    # A stale DISPLAY or MPLBACKEND must not matter.
    os.environ["MPLBACKEND"] = "Agg"
    try:
        import matplotlib.backends.backend_agg
        import matplotlib.figure
    except ImportError as error:
        raise command.MissingMatplotlib(
            f"matplotlib cannot be imported ({error}); `make setup` installs it into .venv, "
            "then run this with .venv/bin/python"
        ) from None
    matplotlib.rcdefaults()
    matplotlib.rcParams.update(_STYLE)
    fig = matplotlib.figure.Figure(figsize=(width, height), dpi=200, facecolor="white")
    matplotlib.backends.backend_agg.FigureCanvasAgg(fig)
    left = 0.2 / width
    fig.text(left, 1 - 0.18 / height, title, fontsize=14, fontweight="bold", va="top")
    fig.text(left, 1 - 0.50 / height, subtitle, fontsize=10, va="top")
    fig.text(left, 0.12 / height, footer, fontsize=7.5, color=GREY, va="bottom")
    return fig


def spread(wanted, gap, low, high):
    """Positions as near to `wanted` as can be (least squares), `gap` apart, in the same order.

    They lie between `low` and `high`, as long as there is room for all.
    """
    order = sorted(range(len(wanted)), key=wanted.__getitem__)
    # Less rank * gap, "gap apart" reads "not falling": pool neighbours that fall into their mean.
    pools = []
    for rank, index in enumerate(order):
        pools.append([wanted[index] - rank * gap, 1])
        while len(pools) > 1 and pools[-2][0] > pools[-1][0]:
            mean, count = pools.pop()
            pools[-1][0] = (pools[-1][0] * pools[-1][1] + mean * count) / (pools[-1][1] + count)
            pools[-1][1] += count
    flat = [mean for mean, count in pools for _ in range(count)]
    positions = [0.0] * len(wanted)
    for rank, index in enumerate(order):
        clipped = max(low, min(flat[rank], high - (len(wanted) - 1) * gap))
        positions[index] = clipped + rank * gap
    return positions


def line_height(axes):
    """The height in pixels of a line of text."""
    return 1.35 * _STYLE["font.size"] / 72 * axes.figure.dpi


def ordinal_colours(count):
    """From dark to light, for things that have an order; without viridis' faint end."""
    import matplotlib

    return [
        matplotlib.colormaps["viridis"](0.7 * rank / max(count - 1, 1)) for rank in range(count)
    ]


def label_at_right(axes, ends):
    """Labels curves or points beyond the right edge of `axes`, in their own colours.

    `ends` holds (text, (x, y), colour); where labels would overlap they move apart, and a thin line
    leads back to the point.
    """
    # Pixels, so that the gap is one of text lines whatever the scale.
    height = [axes.transData.transform(point)[1] for _, point, _ in ends]
    box = axes.get_window_extent()
    for (text, point, colour), y in zip(ends, spread(height, line_height(axes), box.y0, box.y1)):
        axes.annotate(
            text,
            xy=point,
            xytext=(box.width + 0.22 * axes.figure.dpi, y - box.y0),
            textcoords="axes pixels",
            va="center",
            color=colour,
            annotation_clip=False,
            arrowprops={
                "arrowstyle": "-",
                "color": colour,
                "linewidth": 0.8,
                "alpha": 0.7,
                "shrinkA": 2,
                "shrinkB": 4,
                "relpos": (0, 0.5),
            },
        )


def save(fig, path):
    """Writes the PNG. Throws BadResults; an old picture is then left whole."""
    png = io.BytesIO()
    # Without the version of matplotlib, the same data gives the same bytes.
    fig.savefig(png, format="png", metadata={"Software": None})
    command.replace(path, png.getvalue())
    print(path)
