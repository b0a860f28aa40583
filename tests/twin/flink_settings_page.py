"""Table of Flink's settings in docs/flink-settings.md; `python -m tests.twin.flink_settings_page` writes it anew."""

from __future__ import annotations

from pathlib import Path

from twin.flink_settings import SETTINGS, Setting, told

PAGE = Path(__file__).parents[2] / "docs" / "flink-settings.md"
HEAD = "| in Flink | in a scenario |\n|---|---|\n"


def named(setting: Setting) -> str:
    """Keys of a row of the data, the first one with its example."""
    first, *older = setting.keys
    return ", ".join(f"`{each}`" for each in (f"{first}: {setting.example}" if setting.example else first, *older))


def table() -> str:
    """Keys that have a place, those with the same one in a line. Options of the autoscaler are those of its policy."""
    lines = dict[str, list[str]]()
    for setting in SETTINGS:
        says = told(setting.keys[0], setting.example or None, in_file=False)
        if says.startswith("write ") and not setting.path.startswith("policy."):
            lines.setdefault(says.removeprefix("write "), []).append(named(setting))
    return HEAD + "".join(f"| {', '.join(keys)} | {says} |\n" for says, keys in lines.items())


def page(text: str) -> str:
    """Text of the page with the table of today."""
    before, head, _ = text.partition(HEAD)
    assert head
    return before + table()


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
