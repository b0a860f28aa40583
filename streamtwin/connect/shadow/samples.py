"""Files of metric samples as they arrive: the format of `twin import metrics`, as rows for the windows."""

from __future__ import annotations

from spark.metric_windows import Sample
from streamtwin.connect.importers.prometheus import MEANINGS, labels, meaning_of, named
from streamtwin.connect.importers.sample_table import samples_of


def parsed(file: str, content: bytes) -> list[Sample]:
    """The samples of known metrics. Raises BadInput, naming file and line, for what is no table of samples."""
    found = []
    for each in samples_of(file, content):
        metric = meaning_of(each)
        if metric is not None:
            of = named(each, MEANINGS[metric], file)
            found.append(Sample(each["time"], metric, of, labels(each), each["value"]))
    return found
