"""Help as plain text under the headings of panels: rich's boxes would cost a third of a second at every start."""

from __future__ import annotations

from typing import Any

from typer.core import TyperCommand, TyperGroup

_Rows = dict[str, list[tuple[str, str]]]


class PlainCommand(TyperCommand):
    """A command whose options stand under the headings of their panels."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write arguments and options, those without a panel first."""
        _write(_parameters(self, ctx), formatter)


class PlainGroup(TyperGroup):
    """A group whose commands stand under the headings of their panels."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the group's own options, then its commands."""
        _write(_parameters(self, ctx) | _commands(self, ctx), formatter)


def _parameters(command: TyperCommand | TyperGroup, ctx: Any) -> _Rows:
    found: _Rows = {"Arguments": [], "Options": []}
    for parameter in command.get_params(ctx):
        record = parameter.get_help_record(ctx)
        if record is not None:
            usual = "Arguments" if parameter.param_type_name == "argument" else "Options"
            panel = getattr(parameter, "rich_help_panel", None) or usual
            found.setdefault(panel, []).append(record)
    return found


def _commands(group: TyperGroup, ctx: Any) -> _Rows:
    found: _Rows = {}
    for name in group.list_commands(ctx):
        command: Any = group.get_command(ctx, name)
        panel = getattr(command, "rich_help_panel", None)
        first = (command.help or "").partition("\n\n")[0].replace("\n", " ")
        found.setdefault(panel if isinstance(panel, str) else "Commands", []).append((name, first))
    return found


def _write(rows: _Rows, formatter: Any) -> None:
    for heading, entries in rows.items():
        if entries:
            with formatter.section(heading):
                formatter.write_dl(entries)
