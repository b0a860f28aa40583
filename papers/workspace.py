"""Workspace of experiments, which keeps what takes long: corpora, training rows, trained models, judged queries.

Everything is made when it is first asked for, kept under a name with a hash of all that decided it, and found again by
the next experiment or by the same command after an interruption.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from papers.recipes import label
from papers.rows import RowFilter
from papers.simulating import CorpusJob, FanOut, fan_out
from papers.sizes import Sizes
from papers.training import fitted, folder_of
from scenarios.executing.progress import Audience
from scenarios.learning.corpora import CorpusRecipe
from twin.atomic import write_text
from twin.checksums import stamped, unstamped
from twin.corpus.manifest import content_hash
from twin.errors import BadInput
from twin.metrics import METRICS
from twin.nesting import parse_json
from twin.version import VERSION

if TYPE_CHECKING:
    from models.dataset import Dataset, RowSplit
    from models.perturbed_costs import PerturbedCosts
    from models.predictors import Fitted, Predictor


class Workspace:
    """Folder of kept results with one seed and one scale. seed: of corpora, splits and networks."""

    def __init__(
        self, folder: Path, sizes: Sizes, seed: int, audience: Audience, simulating: FanOut | None = None
    ) -> None:
        self.folder, self.sizes, self.seed, self.audience = folder, sizes, seed, audience
        self.used: dict[str, CorpusRecipe] = {}
        self._simulating = simulating or fan_out()
        self._datasets: dict[tuple[str, PerturbedCosts | None], Dataset] = {}

    def reseeded(self, seed: int) -> Workspace:
        """Workspace with the same corpora and rows, but splits and networks of another seed."""
        found = Workspace(self.folder, self.sizes, seed, self.audience, self._simulating)
        found.used, found._datasets = self.used, self._datasets
        return found

    def prepare(self, recipes: Sequence[CorpusRecipe]) -> None:
        """Simulates and aggregates the recipes whose rows are not there yet, all in one Spark session."""
        named = {label(recipe): recipe for recipe in recipes}
        missing = {name: recipe for name, recipe in named.items() if not self._rows(name).exists()}
        jobs = [
            CorpusJob(self.folder / "corpora" / name, self._rows(name), *recipe.plan())
            for name, recipe in missing.items()
        ]
        if jobs:
            self._simulating(jobs, self.audience)

    def dataset(self, recipe: CorpusRecipe, misjudged: PerturbedCosts | None = None) -> Dataset:
        """Rows of a corpus; misjudged: errors of the engine's costs in them, if those are known only roughly."""
        name = label(recipe)
        self.used[name] = recipe
        if (name, misjudged) not in self._datasets:
            self.prepare([recipe])
            from scenarios.learning import learner

            self.audience.stage(f"reading {self._rows(name)}")
            with self.audience.progress("rows encoded") as report:
                self._datasets[name, misjudged] = learner.rows_of(self._rows(name), report, misjudged)
        return self._datasets[name, misjudged]

    def split(self, recipe: CorpusRecipe, rows: RowFilter | None = None) -> RowSplit:
        """Training, validation and test rows; a filter takes rows from the former two and leaves the test rows alone.

        Raises BadInput if the filter leaves nothing to train or validate on.
        """
        from models import dataset as datasets

        dataset = self.dataset(recipe)
        parts = datasets.split(dataset, self.seed)
        if rows is None:
            return parts
        inside = rows.mask(dataset)
        kept = parts._replace(train=parts.train[inside[parts.train]], valid=parts.valid[inside[parts.valid]])
        if not len(kept.train) or not len(kept.valid):
            raise BadInput(f"no training row of {label(recipe)} lies within {rows.name}; simulate more runs")
        return kept

    def fitted(
        self,
        contestant: Predictor,
        recipe: CorpusRecipe,
        rows: RowFilter | None = None,
        metrics: Sequence[str] = METRICS,
        misjudged: PerturbedCosts | None = None,
    ) -> Fitted:
        """Contestant trained on (some rows of) a corpus; each of its models is kept as soon as it is trained."""
        training_set = "-".join([label(recipe), *(each.name for each in (rows, misjudged) if each is not None)])
        self.used[label(recipe)] = recipe
        folder = folder_of(self.folder / "models", contestant, training_set, self.seed)

        def data() -> tuple[Dataset, RowSplit]:
            return self.dataset(recipe, misjudged), self.split(recipe, rows)

        return fitted(folder, contestant, data, self.seed, metrics, self.audience)

    def cached(self, group: str, key: Mapping[str, Any], compute: Callable[[], Any]) -> Any:
        """Value of `compute` for a key, computed now or earlier: plain JSON values.

        group: a name for people, such as `fig9`. key: everything that decides the value, as JSON values; this version,
        the scale's horizon and the seed are added. Interrupted, all values that were finished are kept.
        """
        path, body = self._place(group, key)
        if path.exists():
            try:
                return unstamped(path.read_text(encoding="utf-8"))["value"]
            except (ValueError, KeyError):
                self.audience.stage(f"{path} is damaged; it is made again")
        text = stamped({"key": body, "value": compute()}, allow_nan=False)
        write_text(path, text + "\n")
        return parse_json(text)["value"]

    def has(self, group: str, key: Mapping[str, Any]) -> bool:
        """Whether the value for that key is kept already."""
        return self._place(group, key)[0].exists()

    def _place(self, group: str, key: Mapping[str, Any]) -> tuple[Path, Mapping[str, Any]]:
        body = {"version": VERSION, "seed": self.seed, "horizon_s": self.sizes.horizon_s, **key}
        return self.folder / "judged" / group / f"{content_hash(body)}.json", body

    def measured(self, group: str, function: Callable[..., Any], **case: Any) -> Any:
        """Value of `function` for the arguments of a case and this seed, computed now or earlier; as `cached`."""
        return self.cached(group, case, lambda: function(**case, seed=self.seed))

    def _rows(self, name: str) -> Path:
        return self.folder / "datasets" / name
