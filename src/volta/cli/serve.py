"""``volta serve``: a model as an HTTP service."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from volta.cli.model import check_shares
from volta.cli.terminal import echo, warn_line
from volta.core.errors import InputError, MissingDataError

_network = partial(typer.Option, rich_help_panel="Network")
_guarantee = partial(typer.Option, rich_help_panel="Guarantees")
_alert = partial(typer.Option, rich_help_panel="Alerts")

TOKEN_VARIABLE = "VOLTA_TOKEN"  # noqa: S105


def serve(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="Model file, or a graph of volta export.")],
    state: Annotated[
        Path | None, typer.Option(help="Folder of counts, monitor and feedback. Default: MODEL.state.")
    ] = None,
    host: Annotated[str, _network(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, _network(help="Port; 0 for any that is free.", min=0, max=65535)] = 8000,
    token_file: Annotated[
        Path | None, _network(help=f"File with the token that requests must carry. Default: ${TOKEN_VARIABLE}.")
    ] = None,
    max_rows: Annotated[int, _network(help="Maximum rows of a request.", min=1)] = 10_000,
    max_mb: Annotated[float, _network(help="Maximum megabytes of a request.", min=0.001)] = 16.0,
    alpha: Annotated[float | None, _guarantee(help="Maximum miscoverage of prediction sets. Default: 0.1.")] = None,
    fpr: Annotated[float | None, _guarantee(help="False-positive rate of OOD flags. Default: 0.05.")] = None,
    max_error: Annotated[
        float | None, _guarantee(help="Error rate of answers that feedback is compared with. Default: the policy's.")
    ] = None,
    monitor_alpha: Annotated[float, _guarantee(help="Probability that the monitor ever alarms falsely.")] = 0.01,
    block: Annotated[int, _guarantee(help="The monitor bets on every block-th row.", min=1)] = 1,
    webhook: Annotated[str | None, _alert(help="Address that is sent each alarm as JSON.")] = None,
    command: Annotated[str | None, _alert(help="Shell command that gets each alarm on standard input.")] = None,
) -> None:
    """Serve a model over HTTP: decisions, feedback, metrics and a live page."""
    from volta.serve.app import Settings
    from volta.serve.app import serve as serve_model

    check_shares({"alpha": alpha, "fpr": fpr, "max_error": max_error, "monitor_alpha": monitor_alpha})
    token = read_token(token_file)
    if token is None and host not in ("127.0.0.1", "localhost", "::1"):
        warn_line(f"--host is {host} and there is no token: whoever reaches the port may ask, and send feedback")
    settings = Settings(host, port, token, max_rows, int(max_mb * 1e6))
    serve_model(
        model,
        settings,
        state=state,
        alpha=alpha,
        fpr=fpr,
        max_error=max_error,
        monitor_alpha=monitor_alpha,
        block=block,
        webhook=webhook,
        command=command,
        ready=lambda address: echo(f"serving {model} at {address} (Ctrl-C stops)"),
    )


def read_token(path: Path | None) -> str | None:
    """Return the token in a file or in the environment, None where there is neither."""
    if path is not None and not path.is_file():
        raise MissingDataError(f"--token-file is {path}, which does not exist; write the token into it")
    given = os.environ.get(TOKEN_VARIABLE) if path is None else path.read_text(encoding="utf-8", errors="replace")
    if given is None:
        return None
    if not (token := given.strip()) or not token.isascii() or not token.isprintable():
        name = f"${TOKEN_VARIABLE}" if path is None else f"--token-file is {path}, which"
        raise InputError(f"{name} holds no token; write one line of letters and digits")
    return token
