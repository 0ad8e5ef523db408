"""Rows that no model writes, each odd in another way: what the parser and the grammars know of a format is its row."""

from src.parsing.formats.table import Format
from src.parsing.formats.tag_syntax import TagSyntax

_JSON = '{"name": "{name}", "arguments": {args}}'

ODD_ROWS = (
    Format("chevrons", "", "<<tool", "text", "<</tool>>", "", "<<tool {name}>>{args}<</tool>>"),
    Format("mustache", "", "{{#tool}}", "json", "{{/tool}}", "", "{{#tool}}" + _JSON + "{{/tool}}"),
    Format("comment", "", "<!-- call:", "named", "-->", "", "<!-- call: {name} {args} -->"),
    Format(
        "latex", "", "\\call[", "tags", "\\endcall", "", "{call}",
        syntax=TagSyntax("\\call[{name}]\n", "\\arg[{key}]", "\\endarg\n", "\\endcall"),
    ),
    Format("tildes", "", "~~~tool", "named", "~~~", "", "~~~tool\n{name}\n{args}\n~~~"),
    Format("section", "", "§call", "pythonic", "§", "", "§call {name}({keywords})§"),
    Format("rules", "", "=== tool call ===", "json", "=== end ===", "", "=== tool call ===\n" + _JSON + "\n=== end ==="),
    Format(
        "currency", "", "¤¤", "pairs", "¤/¤", "", "¤¤{call}¤/¤",
        syntax=TagSyntax("{name}\n", "¤k¤{key}¤v¤", "¤,¤\n", ""),
    ),
    Format("arrow", "", "-->>", "named", "", "", "-->> {name} :: {args}"),
    Format("parentheses", "", "((invoke", "named", "))", "", "((invoke {name} with {args}))"),
    Format("emoji", "", "🔧", "json", "🔚", "", '🔧{"tool": "{name}", "input": {args}}🔚'),
    Format("percent", "", "%call:", "named", "%", "", "%call:{name}{members}%", quote="<escape>"),
    Format(
        "shouted", "", "BEGIN CALL", "tags", "END CALL", "", "BEGIN CALL\n{call}END CALL",
        syntax=TagSyntax("Tool: {name}\n", "Arg {key}: ", ";;\n", ""),
    ),
    Format("brackets", "", "[[call", "text", "[[/call]]", "", "[[call {name}]]{args}[[/call]]"),
    Format(
        "percent_tags", "", "<%tool%>", "pairs", "<%end%>", "", "<%calls%>⟦<%tool%>{call}<%end%>⟧<%done%>",
        syntax=TagSyntax("{name}\n", "<%arg {key}%>", "<%%>\n", ""),
    ),
    Format("words", "", "@@do", "named", "@@end", "", "@@do tool={name} with={args} @@end"),
    Format("slash", "", "/tool", "text", "", "", "/tool {name}: {args}"),
)  # fmt: skip
