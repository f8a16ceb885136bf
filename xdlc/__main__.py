"""``python -P -m xdlc``: the tools as sub-commands, without scripts on the path."""

from xdlc.cli.main import main

if __name__ == "__main__":
    main(prog_name="xdlc")
