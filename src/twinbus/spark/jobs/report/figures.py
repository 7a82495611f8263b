"""Draws with matplotlib: how figures look, and what they become.

A figure is drawn twice, for a desk and for a phone: text that shrinks with a picture
cannot be read. Both go into the page as SVG, with text as text. Neither has a date or
a random id, so the same findings make the same files.
"""

import io
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from matplotlib.figure import Figure

INK: Final = "#1b1b1b"
GREY: Final = "#5f6368"
PALE: Final = "#d9dce1"

COLOURS: Final = ("#0072b2", "#d55e00", "#007a5a", "#7b3294", "#8a6d00", "#444444")
"""Told apart by people who do not see all colours, and dark enough on white."""

HATCHES: Final = ("", "////", "....", "xxxx", "----", "\\\\\\\\")
"""And by those who see none, as in print."""

_DOTS_PER_INCH: Final = 150
_STYLE: Final[dict[str, Any]] = {
    "font.family": "sans-serif",
    "font.size": 10,
    "axes.edgecolor": GREY,
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": PALE,
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "xtick.color": INK,
    "ytick.color": INK,
    "text.color": INK,
    "legend.frameon": False,
    "hatch.linewidth": 0.6,
    "svg.fonttype": "none",
    # A dollar is a part of a path, and no formula.
    "text.parse_math": False,
    "date.converter": "concise",
    "timezone": "UTC",
}
_SIZE: Final = re.compile(r'width="[\d.]+pt" height="[\d.]+pt" ')
_IDS: Final = re.compile(r'( id="|url\(#|href="#)')


@dataclass(frozen=True, slots=True)
class Frame:
    """For whom a figure is drawn."""

    name: str
    width_inches: float

    @property
    def is_narrow(self) -> bool:
        return self.width_inches < 6


WIDE: Final = Frame("wide", 9.6)
NARROW: Final = Frame("narrow", 4.4)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    """A picture in its forms, and in words for who does not see it."""

    name: str
    words: str
    wide_svg: str
    narrow_svg: str
    png: bytes


Axes = Any
"""matplotlib's. It converts dates, which its types do not tell."""

Draw = Callable[[Axes, Frame], None]


def drawn(name: str, words: str, draw: Draw, height: float = 3.2) -> Plot:
    """Draw it for both frames. `height` is in inches."""
    import matplotlib

    style: Any = {**_STYLE, "svg.hashsalt": name}
    with matplotlib.rc_context(style):
        wide = _figure(draw, WIDE, height)
        png = _saved(wide, "png", {"Software": None})
        svg = _svg(wide, f"{name}-{WIDE.name}-")
        narrow = _svg(_figure(draw, NARROW, height), f"{name}-{NARROW.name}-")
    return Plot(name=name, words=words, wide_svg=svg, narrow_svg=narrow, png=png)


def _figure(draw: Draw, frame: Frame, height: float) -> "Figure":
    from matplotlib.figure import Figure

    figure = Figure(figsize=(frame.width_inches, height), layout="constrained")
    axes = figure.add_subplot()
    axes.tick_params(length=3, labelsize=9)
    draw(axes, frame)
    return figure


def _saved(figure: "Figure", kind: str, metadata: dict[str, None]) -> bytes:
    file = io.BytesIO()
    figure.savefig(file, format=kind, dpi=_DOTS_PER_INCH, metadata=metadata)
    return file.getvalue()


def _svg(figure: "Figure", prefix: str) -> str:
    """The element alone, as large as the page makes it, with ids of its own: all
    figures of a page share one space of ids."""
    fields = ("Date", "Creator", "Format", "Type")
    text = _saved(figure, "svg", dict.fromkeys(fields)).decode()
    bare = _SIZE.sub("", text[text.index("<svg") :]).strip()
    return _IDS.sub(lambda found: f"{found[1]}{prefix}", bare)
