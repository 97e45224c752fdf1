"""The command `completion`: what a shell needs to complete our commands, options and files."""

from __future__ import annotations

import click

SHELLS = ("bash", "zsh", "fish")


@click.command(
    short_help="A script with which your shell completes fairchain commands.",
    epilog="Example: fairchain completion bash >> ~/.bashrc",
)
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print a script that lets SHELL complete commands, options and file names, from the next shell on.

    \b
    bash  fairchain completion bash >> ~/.bashrc
    zsh   fairchain completion zsh >> ~/.zshrc
    fish  fairchain completion fish > ~/.config/fish/completions/fairchain.fish
    """  # noqa: D301  # \b keeps click from joining the lines
    from click.shell_completion import get_completion_class

    maker = get_completion_class(shell)
    assert maker is not None
    print(maker(context.find_root().command, {}, "fairchain", "_FAIRCHAIN_COMPLETE").source())
