"""Table of Flink's settings in docs/flink-settings.md; `python -m tests.twin.flink_settings_page` writes it anew."""

from __future__ import annotations

from pathlib import Path

from twin.flink_settings import SETTINGS, Setting

PAGE = Path(__file__).parents[2] / "docs" / "flink-settings.md"
HEAD = "| in Flink | in a scenario |\n|---|---|\n"


def place(setting: Setting) -> str:
    """Where a setting stands in a scenario, or what to write instead; empty if there is neither."""
    if "*" in setting.path:
        return f"`{setting.path.rpartition('.')[2]}` of {setting.says}"
    if setting.path:
        return f"`{setting.path}`" + (f", {setting.says}" if setting.says else "")
    return setting.says.removeprefix("write ") if setting.says.startswith("write ") else ""


def table() -> str:
    """Today's keys that have a place, those with the same one in a line. Options of the autoscaler are those of its
    policy."""
    lines = dict[str, list[str]]()
    for setting in SETTINGS:
        if place(setting) and not setting.path.startswith("policy."):
            lines.setdefault(place(setting), []).append(f"`{setting.keys[0]}`")
    return HEAD + "".join(f"| {', '.join(keys)} | {where} |\n" for where, keys in lines.items())


def page(text: str) -> str:
    """Text of the page with the table of today."""
    before, head, _ = text.partition(HEAD)
    assert head
    return before + table()


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
