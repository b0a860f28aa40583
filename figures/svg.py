"""SVG as text: elements that are well-formed whatever their content, and colours for utilisations."""

from __future__ import annotations

from html import escape
from itertools import accumulate
from typing import NamedTuple
from unicodedata import combining, east_asian_width

BLUE, ORANGE, GREEN, GREY = "#3465a4", "#d9730d", "#2e8b57", "#7a7a7a"
"""Colours that differ in lightness as well as in hue."""
WIDTHS = {
    **dict.fromkeys("ijl.,:;'|! ", 0.33),
    **dict.fromkeys("frtI()[]-/\\", 0.42),
    **dict.fromkeys("+=<>~#&×→", 0.84),
    **dict.fromkeys("mwMW@%…—", 1.0),
}
"""Widths of characters of the wider sans-serif faces that browsers have (DejaVu Sans), as shares of the font's size."""
CAPITAL, LETTER, FULL = 0.79, 0.64, 1.15
"""The same of other capitals, of all else, and of characters as wide as a line is high, such as Chinese ones."""


class Heat(NamedTuple):
    """Colour of a utilisation. below: shares under it have this colour. ink: of text on it."""

    below: float
    fill: str
    ink: str


HEATS = (
    Heat(0.25, "#edf3fa", "#222222"),
    Heat(0.50, "#cbdff2", "#222222"),
    Heat(0.75, "#fbe6b5", "#222222"),
    Heat(0.90, "#f6ba72", "#222222"),
    Heat(float("inf"), "#b8322a", "#ffffff"),
)
"""Colours from idle to full, which differ in lightness as well as hue, for colour-blind readers and printers."""
UNKNOWN = Heat(0.0, "#ffffff", "#222222")


def heat(share: float | None) -> Heat:
    """Colour of a share in use; white where it is not known."""
    return UNKNOWN if share is None else next(each for each in HEATS if share < each.below)


def element(name: str, *children: str, **attributes: object) -> str:
    """SVG element; children are elements or from `text`. `_` in attribute names becomes `-`, at the end nothing.

    Attributes that are None are left out; numbers are written to a hundredth.
    """
    given = ((key.rstrip("_").replace("_", "-"), value) for key, value in attributes.items() if value is not None)
    written = "".join(f' {key}="{_value(value)}"' for key, value in given)
    return f"<{name}{written}>{''.join(children)}</{name}>" if children else f"<{name}{written}/>"


def text(words: str) -> str:
    """Words escaped as the content of an element."""
    return escape(_known(words), quote=False)


_UNKNOWN = dict.fromkeys(number for number in range(32) if chr(number) not in "\t\n")


def _known(words: str) -> str:
    """Words without the characters that XML does not allow."""
    return words.translate(_UNKNOWN)


def label(words: str, x: float, y: float, size_px: float, **attributes: object) -> str:
    """Text element with the left end of its base line at a place, in pixels."""
    return element("text", text(words), x=x, y=y, font_size=size_px, **attributes)


def rectangle(x: float, y: float, width: float, height: float, **attributes: object) -> str:
    """Rectangle with its upper left corner at a place, in pixels."""
    return element("rect", x=x, y=y, width=width, height=height, **attributes)


def picture(width: float, height: float, title: str, *children: str, style: str | None = None) -> str:
    """Whole drawing, as wide as it is drawn unless a page fits it. title: for screen readers. style: CSS."""
    size = {"width": round(width), "height": round(height), "viewBox": f"0 0 {width:.0f} {height:.0f}"}
    return element(
        "svg",
        element("title", text(title)),
        *children,
        xmlns="http://www.w3.org/2000/svg",
        role="img",
        style=style,
        font_family="system-ui, 'DejaVu Sans', sans-serif",
        **size,
    )


def width_px(words: str, font_px: float) -> float:
    """Approximate width of words; few faces have wider ones."""
    return font_px * sum(map(_width, words))


def _width(character: str) -> float:
    if character in WIDTHS:
        return WIDTHS[character]
    if combining(character):
        return 0.0
    return FULL if east_asian_width(character) in "WF" else CAPITAL if character.isupper() else LETTER


def shortened(words: str, width: float, font_px: float) -> str:
    """Words that fit into `width`, with an ellipsis if some are left out."""
    if width_px(words, font_px) <= width:
        return words
    ends = accumulate(map(_width, words), initial=_width("…"))
    fits = sum(font_px * end <= width for end in ends) - 1
    return f"{words[: max(1, fits)]}…"


def _value(value: object) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else escape(_known(str(value)))
