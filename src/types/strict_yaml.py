"""YAML whose objects hold each key once, and whose dates are texts, as JSON has them."""

from __future__ import annotations

from typing import Any

MAX_KEY_CHARS = 60  # of a key in an error


class InvalidYaml(ValueError):
    """A text that is not YAML: where, and why."""


def load_strict(text: str) -> Any:
    """The value of a YAML document.

    Raises InvalidYaml, ValueError for a value that its tag does not allow, and RecursionError.
    """
    import yaml  # slow, and needed only where something is written in YAML

    class Loader(yaml.SafeLoader):
        yaml_implicit_resolvers = {  # noqa: RUF012 - of the library
            first: [row for row in rows if row[0] != "tag:yaml.org,2002:timestamp"]
            for first, rows in yaml.SafeLoader.yaml_implicit_resolvers.items()
        }

        def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
            seen: set[tuple[str, str]] = set()  # the keys as they are written; those that << merges are no doubles
            for key, _ in node.value:
                if isinstance(key, yaml.ScalarNode) and (key.tag, key.value) in seen:
                    why = f'"{key.value[:MAX_KEY_CHARS]}" stands twice in one object'
                    raise yaml.constructor.ConstructorError(None, None, why, key.start_mark)
                seen.add((key.tag, str(key.value)))
            return super().construct_mapping(node, deep)

    try:
        return yaml.load(text, Loader)  # noqa: S506 - a SafeLoader
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        raise InvalidYaml(f"{where}{error.problem}") from error
    except yaml.YAMLError as error:
        raise InvalidYaml(str(error).splitlines()[0]) from error
