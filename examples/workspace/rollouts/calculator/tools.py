"""The calculator's tools: what the model is told of them, and what they do."""

import json

OPERATIONS = {
    "add": ("Add two numbers: a + b.", lambda a, b: a + b),
    "subtract": ("Subtract the second number from the first: a - b.", lambda a, b: a - b),
    "multiply": ("Multiply two numbers: a * b.", lambda a, b: a * b),
    "divide": ("Divide the first number by the second: a / b.", lambda a, b: a / b),
}

NUMBERS = {
    "type": "object",
    "properties": {"a": {"type": "number"}, "b": {"type": "number"}},
    "required": ["a", "b"],
    "additionalProperties": False,
}

TOOLS = [
    {
        "type": "function",
        "function": {"name": name, "description": description, "parameters": NUMBERS},
    }
    for name, (description, _) in OPERATIONS.items()
]


def call_tool(name: str, arguments: str) -> str:
    """The result as text. A mistake of the model comes back as text too, so it can try again."""
    if name not in OPERATIONS:
        return f"error: there is no tool {name!r}; there are {', '.join(OPERATIONS)}"
    try:
        given = json.loads(arguments)
        result = OPERATIONS[name][1](float(given["a"]), float(given["b"]))
    except (ValueError, KeyError, TypeError, ArithmeticError) as error:
        return f"error: {type(error).__name__}: {error}"
    return f"{result:.12g}"
