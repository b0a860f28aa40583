"""Runs of the notebooks of docs/notebooks: `python -m tests.streamtwin.notebooks` writes their outputs anew."""

import ast
import contextlib
import io
import json
from pathlib import Path
from typing import Any

NOTEBOOKS = sorted((Path(__file__).parents[2] / "docs" / "notebooks").glob("*.ipynb"))


def cells(notebook: Path) -> list[dict[str, Any]]:
    """Cells as the file has them."""
    return json.loads(notebook.read_text(encoding="utf-8"))["cells"]


def executed(notebook: Path) -> dict[str, Any]:
    """The notebook with the outputs of a run of all cells in one namespace, as Jupyter keeps them: what is printed,
    then the value of a last expression. What a cell raises is raised.
    """
    document = json.loads(notebook.read_text(encoding="utf-8"))
    space: dict[str, Any] = {"__name__": "__main__"}
    for cell in document["cells"]:
        if cell["cell_type"] == "code":
            cell["outputs"] = list(_outputs("".join(cell["source"]), space, cell["execution_count"]))
    return document


def _outputs(source: str, space: dict[str, Any], count: int) -> list[dict[str, Any]]:
    *before, last = ast.parse(source).body
    ends_in_value = isinstance(last, ast.Expr)
    printed, shown = io.StringIO(), None
    with contextlib.redirect_stdout(printed):
        exec(compile(ast.Module(before if ends_in_value else [*before, last], []), "cell", "exec"), space)
        if ends_in_value:
            shown = eval(compile(ast.Expression(last.value), "cell", "eval"), space)
    outputs: list[dict[str, Any]] = []
    if printed.getvalue():
        outputs.append({"name": "stdout", "output_type": "stream", "text": printed.getvalue()})
    if shown is not None:
        data = {"text/html": shown._repr_html_()} if hasattr(shown, "_repr_html_") else {}
        data["text/plain"] = repr(shown)
        outputs.append({"data": data, "execution_count": count, "metadata": {}, "output_type": "execute_result"})
    return outputs


def main() -> None:
    for notebook in NOTEBOOKS:
        notebook.write_text(json.dumps(executed(notebook), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
