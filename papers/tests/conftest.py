"""Commands in this process, as the tests of the command line have them."""

from tests.cli.conftest import command

__all__ = ["command"]
