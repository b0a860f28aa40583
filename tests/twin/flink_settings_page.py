"""Table of Flink's settings in docs/flink-settings.md; `python -m tests.twin.flink_settings_page` writes it anew."""

from __future__ import annotations

from pathlib import Path

from twin.flink_settings import SETTINGS, Setting, told

PAGE = Path(__file__).parents[2] / "docs" / "flink-settings.md"
HEAD = "| in Flink | in a scenario |\n|---|---|\n"


def row(setting: Setting) -> str:
    """Line of the table about a row of the data."""
    first, *older = setting.keys
    key = f"`{first}: {setting.example}`" if setting.example else f"`{first}`"
    also = "".join(f", `{each}`" for each in older)
    return f"| {key}{also} | {told(first, setting.example or None).removeprefix('write ')} |\n"


def page(text: str) -> str:
    """Text of the page with the table of today."""
    before, head, _ = text.partition(HEAD)
    assert head
    return before + head + "".join(map(row, SETTINGS))


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
