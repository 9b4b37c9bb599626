"""``manifest.json``: what a run folder is for, as one value with types."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import TypeVar

from volta.bench.cells import Cell
from volta.bench.environment import Environment
from volta.bench.records import budget_from_json
from volta.core.json_fields import JsonFields, JsonObject
from volta.core.sealed import FileKind
from volta.networks.recipe import Budget

MANIFEST_FILE = FileKind("manifest of a run", 2, "finished cells are safe: delete that file and run volta bench again")
EXTENDED = ("tasks", "methods", "protocols", "seeds")
Item = TypeVar("Item")


@dataclass(frozen=True)
class RunSettings:
    """What a run was asked: its tasks, methods, protocols and seeds may grow, the rest holds for all its cells.

    ``weights`` is the name of the backbone's file. ``shifts`` is None in folders of a version that had no choice.
    ``resplit`` is None where each task's own way is followed: rows rotate with the seed, or one split serves all seeds.
    ``scale`` says how columns are scaled.
    """

    tasks: tuple[str, ...]
    methods: tuple[str, ...]
    protocols: tuple[str, ...]
    seeds: tuple[int, ...]
    budget: Budget
    device: str
    threads: int
    backbone: str | None
    weights: str | None
    severities: tuple[int, ...]
    shifts: str | None
    resplit: bool | None = None
    scale: str = "auto"

    @property
    def fixed(self) -> JsonObject:
        """What all cells of a run folder must have in common, by name."""
        return {name: value for name, value in self.to_json().items() if name not in EXTENDED}

    def extended(self, more: RunSettings) -> RunSettings:
        """Return ``more`` with what was asked before in front of what it adds."""
        return replace(
            more,
            tasks=_joined(self.tasks, more.tasks),
            methods=_joined(self.methods, more.methods),
            protocols=_joined(self.protocols, more.protocols),
            seeds=_joined(self.seeds, more.seeds),
        )

    def to_json(self) -> JsonObject:
        """Return the JSON object that :meth:`from_json` reads."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}

    @classmethod
    def from_json(cls, stored: JsonFields) -> RunSettings:
        """Return the settings that :meth:`to_json` wrote."""
        return cls(
            tasks=stored.texts("tasks"),
            methods=stored.texts("methods"),
            protocols=stored.texts("protocols"),
            seeds=stored.integers("seeds"),
            budget=budget_from_json(stored.fields("budget")),
            device=stored.text("device"),
            threads=stored.integer("threads"),
            backbone=stored.optional_text("backbone"),
            weights=stored.optional_text("weights"),
            severities=stored.integers("severities"),
            shifts=stored.optional_text("shifts"),
            resplit=stored.optional_flag("resplit"),
            scale=stored.text("scale") if "scale" in stored.values else "auto",
        )


@dataclass(frozen=True)
class Manifest:
    """What a run folder was asked for, the cells that follow, the commands that asked, and where they last ran."""

    created: str
    updated: str
    config: RunSettings
    cells: tuple[Cell, ...]
    commands: tuple[str, ...]
    environment: Environment

    def to_json(self) -> JsonObject:
        """Return the JSON object that :meth:`from_json` reads."""
        return {
            "created": self.created,
            "updated": self.updated,
            "config": self.config.to_json(),
            "cells": [cell.to_json() for cell in self.cells],
            "commands": list(self.commands),
            "environment": self.environment.to_json(),
        }

    @classmethod
    def from_json(cls, stored: JsonFields) -> Manifest:
        """Return the manifest that :meth:`to_json` wrote."""
        return cls(
            created=stored.text("created"),
            updated=stored.text("updated"),
            config=RunSettings.from_json(stored.fields("config")),
            cells=tuple(Cell.from_json(cell) for cell in stored.list_of_fields("cells")),
            commands=stored.texts("commands"),
            environment=Environment.from_json(stored.fields("environment")),
        )


def _joined(before: tuple[Item, ...], more: tuple[Item, ...]) -> tuple[Item, ...]:
    return tuple(dict.fromkeys([*before, *more]))
