"""Profile files: what `twin profile` measured of a job, as strict JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from scenarios.files.scenario_file import read_text
from streamtwin.connect.profiling.measuring import OperatorProfile
from twin.checksums import KEY, ChecksumError, of_json
from twin.errors import BadInput
from twin.scenario import Scenario, config_hash
from twin.spec import Spec, parse
from twin.version import VERSION


class Profiles(Spec):
    """The profiles of a job's operators, and what it takes to measure them again."""

    manifest: dict[str, str | int | float]
    operators: dict[str, OperatorProfile]


def profiles_of(scenario: Scenario, operators: Mapping[str, OperatorProfile], samples: int, seed: int) -> Profiles:
    """The content of a file."""
    manifest: dict[str, str | int | float] = {
        "version": VERSION,
        "scenario": scenario.name,
        "config_hash": config_hash(scenario),
        "samples": samples,
        "seed": seed,
    }
    return Profiles(manifest=manifest, operators=dict(operators))


def dump(profiles: Profiles) -> str:
    """A text that loads back equal; a line an operator. The manifest has its checksum."""
    document: dict[str, Any] = profiles.model_dump(mode="json", exclude_none=True)
    document["manifest"] |= {KEY: of_json(document)}
    lines = [f"    {json.dumps(name)}: {json.dumps(each)}" for name, each in document["operators"].items()]
    operators = ",\n".join(lines)
    return f'{{\n  "manifest": {json.dumps(document["manifest"])},\n  "operators": {{\n{operators}\n  }}\n}}\n'


def load(path: Path) -> Profiles:
    """What a file holds. Raises BadInput, in one line, if there is none, or it is not a profile."""
    text = read_text(path)
    try:
        data = json.loads(text)
        manifest = data.get("manifest") if isinstance(data, dict) else None
        if isinstance(manifest, dict) and manifest.pop(KEY, None) not in (None, of_json(data)):
            raise ChecksumError("its checksum does not match its content")
    except ChecksumError as error:
        raise BadInput(f"{path} is damaged ({error}); remove '{KEY}' from it if it was changed on purpose") from None
    except (ValueError, RecursionError) as error:
        raise BadInput(f"{path} is not JSON ({error}); write it with 'twin profile SCENARIO --out FILE'") from None
    return parse(Profiles, data, where=str(path))
