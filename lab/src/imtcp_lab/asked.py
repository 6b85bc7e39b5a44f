"""A digest of scenarios: does a stored record belong to today's scenarios?"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Sequence
from typing import Any

from imtcp_lab.scenario import Scenario

#: Fields that are only names in tables.
_WORDS = ("label",)


def digest(scenarios: Sequence[Scenario]) -> str:
    """SHA-256 of every field that differs from its default. So a new field with a default changes
    nothing."""
    told = json.dumps([_told(scenario) for scenario in scenarios], sort_keys=True, default=str)
    return hashlib.sha256(told.encode()).hexdigest()


def _told(value: Any) -> Any:  # noqa: ANN401 - whatever a scenario is made of
    if isinstance(value, tuple | list):
        return [_told(part) for part in value]
    if not dataclasses.is_dataclass(value):
        return value
    own = {
        field.name: _told(getattr(value, field.name))
        for field in dataclasses.fields(value)
        if field.name not in _WORDS and getattr(value, field.name) != _default(field)
    }
    return {"kind": type(value).__name__, **own}


def _default(field: dataclasses.Field) -> Any:  # noqa: ANN401
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return field.default
