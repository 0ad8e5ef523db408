# PYTHON_ARGCOMPLETE_OK
import sys

from src.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
