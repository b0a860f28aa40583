"""Tables of Flink's settings in docs/flink-settings.md; `python -m tests.twin.flink_settings_page` writes them anew."""

from __future__ import annotations

from pathlib import Path

from twin.flink_settings import SETTINGS, Setting, told

PAGE = Path(__file__).parents[2] / "docs" / "flink-settings.md"
HEAD = "| in Flink | with `--set` |\n|---|---|\n"
NO_PLACE = "\n## Keys without a place\n\n| in Flink | why there is nothing to write |\n|---|---|\n"
LEAVE = "leave it out: "


def named(setting: Setting) -> str:
    """Keys of a row of the data, the first one with its example."""
    first, *older = setting.keys
    return ", ".join(f"`{each}`" for each in (f"{first}: {setting.example}" if setting.example else first, *older))


def tables() -> str:
    """Both tables; keys of which the same is said share a line. Options of the autoscaler are those of its policy."""
    lines = dict[str, list[str]]()
    for setting in SETTINGS:
        if not setting.path.startswith("policy."):
            said = told(setting.keys[0], setting.example or None, in_file=False)
            lines.setdefault(said, []).append(named(setting))
    rows = {said: f"| {', '.join(keys)} | {said.removeprefix(LEAVE).removeprefix('write ')} |\n"
            for said, keys in lines.items()}  # fmt: skip
    places = [row for said, row in rows.items() if not said.startswith(LEAVE)]
    others = [row for said, row in rows.items() if said.startswith(LEAVE)]
    return HEAD + "".join(places) + NO_PLACE + "".join(others)


def page(text: str) -> str:
    """Text of the page with the tables of today."""
    before, head, _ = text.partition(HEAD)
    assert head
    return before + tables()


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
