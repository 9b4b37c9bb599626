"""Plug-ins: what other packages provide by entry point (``volta.methods``, ...) or as ``package.module:Name``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, PackageNotFoundError, entry_points, packages_distributions, version
from typing import Any, Literal, TypeAlias

from volta.core.errors import InputError

Group: TypeAlias = Literal["volta.methods", "volta.tasks", "volta.backbones", "volta.metrics"]

_ADDRESS = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*")


@dataclass(frozen=True)
class Plugin:
    """One entry point: its name, and the package, with its version, that provides it."""

    name: str
    package: str
    entry: EntryPoint

    def load(self) -> Any:
        """Import what the entry point names; an error names the package and the cause."""
        try:
            return self.entry.load()
        except Exception as error:
            raise InputError(
                f"the plug-in {self.name!r} of {self.package} cannot be loaded ({type(error).__name__}: {error}); "
                f"update or uninstall {self.package.partition(' ')[0]}"
            ) from error


@cache
def plugins(group: Group) -> dict[str, Plugin]:
    """Return the entry points of ``group`` by name; two packages with one name are an error."""
    found: dict[str, Plugin] = {}
    for entry in entry_points(group=group):
        package = f"{entry.dist.name} {entry.dist.version}" if entry.dist is not None else "an unnamed package"
        if entry.name in found and found[entry.name].package != package:
            raise InputError(
                f"{found[entry.name].package} and {package} both bring {entry.name!r} as {group}; uninstall one of them"
            )
        found[entry.name] = Plugin(entry.name, package, entry)
    return found


def is_address(text: str) -> bool:
    """Whether a name is written ``package.module:Name``."""
    return _ADDRESS.fullmatch(text) is not None


def load_address(text: str) -> Any:
    """Return what ``package.module:Name`` stands for; an error names the part that is missing."""
    module_name, _, name = text.partition(":")
    try:
        module = import_module(module_name)
    except ModuleNotFoundError as error:
        raise InputError(
            f"{text!r}: there is no module {error.name!r}; install its package, or run where it lies"
        ) from error
    except Exception as error:
        raise InputError(f"{text!r}: importing {module_name} fails ({type(error).__name__}: {error})") from error
    if not hasattr(module, name):
        raise InputError(f"{text!r}: {module_name} has no {name!r}")
    return getattr(module, name)


@cache
def package_version(module_name: str) -> str:
    """Return the package and version that a module from outside volta was installed by; empty where there is none."""
    top = module_name.partition(".")[0]
    if top == "volta":
        return ""
    found = []
    for package in sorted(set(packages_distributions().get(top, ()))):
        try:
            found.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            continue
    return ", ".join(found)
