# PYTHON_ARGCOMPLETE_OK
import sys

if __name__ == "__main__":
    try:
        from src.cli.main import main

        sys.exit(main())
    except KeyboardInterrupt:  # while modules load
        sys.exit(130)
