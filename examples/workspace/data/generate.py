"""Write the datasets of this workspace: ``python data/generate.py [DIRECTORY]``.

The same bytes every time: the only chance in here comes from a seeded generator.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Iterator
from pathlib import Path

SEED = 20260101
HERE = Path(__file__).resolve().parent

# Worded so that even a model of 135 million parameters can follow it.
MULTIPLY_PROMPT = """\
Multiply. End with a line `#### <answer>`.

Question: What is 2 x 2?
2 x 2 = 4
#### 4

Question: What is 7 x 3?
7 x 3 = 21
#### 21"""

CALCULATOR_PROMPT = (
    "Compute the expression with the tools, one operation per call, innermost brackets first. "
    "When you have the result, reply with a line `#### <result>`."
)

JUDGED_PROMPT = "Answer the question in one short sentence."

# (how many, lowest and highest left factor, lowest and highest right factor)
MULTIPLY_TIERS = [
    (25, (1, 5), (1, 5)),
    (56, (1, 9), (1, 9)),
    (169, (10, 99), (2, 9)),
    (250, (10, 99), (10, 99)),
    (200, (100, 999), (10, 99)),
    (150, (100, 999), (100, 999)),
    (150, (1000, 9999), (100, 999)),
]

CALCULATOR_ROWS = 200

QUESTIONS = [
    ("What is the capital of Peru?", "Lima"),
    ("What is the capital of Japan?", "Tokyo"),
    ("What is the capital of Kenya?", "Nairobi"),
    ("What is the capital of Canada?", "Ottawa"),
    ("What is the capital of Norway?", "Oslo"),
    ("What is the capital of Egypt?", "Cairo"),
    ("What is the capital of Portugal?", "Lisbon"),
    ("What is the capital of Thailand?", "Bangkok"),
    ("What is the capital of Australia?", "Canberra"),
    ("What is the capital of Argentina?", "Buenos Aires"),
    ("Which planet is the largest in the solar system?", "Jupiter"),
    ("Which planet is closest to the Sun?", "Mercury"),
    ("Which planet is known for its bright rings?", "Saturn"),
    ("What is the chemical symbol of gold?", "Au"),
    ("What is the chemical symbol of iron?", "Fe"),
    ("What is the chemical symbol of sodium?", "Na"),
    ("Which gas do plants take in for photosynthesis?", "carbon dioxide"),
    ("Which gas makes up most of the air?", "nitrogen"),
    ("What is frozen water called?", "ice"),
    ("At how many degrees Celsius does water boil at sea level?", "100"),
    ("How many legs does a spider have?", "8"),
    ("How many legs does an insect have?", "6"),
    ("How many continents are there?", "7"),
    ("How many days are in a leap year?", "366"),
    ("How many minutes are in an hour?", "60"),
    ("How many sides does a hexagon have?", "6"),
    ("How many strings does a violin have?", "4"),
    ("How many players does a football team have on the pitch?", "11"),
    ("How many bones does an adult human have?", "206"),
    ("Which organ pumps blood through the body?", "the heart"),
    ("Which organ do humans breathe with?", "the lungs"),
    ("Which animal is the largest on Earth?", "the blue whale"),
    ("Which animal is the fastest on land?", "the cheetah"),
    ("Which bird is the largest?", "the ostrich"),
    ("Which ocean is the largest?", "the Pacific Ocean"),
    ("Which continent is the largest?", "Asia"),
    ("Which country has the most inhabitants?", "India"),
    ("Which river flows through London?", "the Thames"),
    ("Which river flows through Paris?", "the Seine"),
    ("Which mountain is the highest above sea level?", "Mount Everest"),
    ("Which desert is the largest hot desert?", "the Sahara"),
    ("Which language has the most speakers in Brazil?", "Portuguese"),
    ("Which currency is used in Japan?", "the yen"),
    ("Which currency is used in Switzerland?", "the Swiss franc"),
    ("Who wrote Hamlet?", "William Shakespeare"),
    ("Who wrote Don Quixote?", "Miguel de Cervantes"),
    ("Who painted the Mona Lisa?", "Leonardo da Vinci"),
    ("Who composed the Ninth Symphony with the Ode to Joy?", "Ludwig van Beethoven"),
    ("Who developed the general theory of relativity?", "Albert Einstein"),
    ("Who formulated the law of universal gravitation?", "Isaac Newton"),
    ("Who was the first person to walk on the Moon?", "Neil Armstrong"),
    ("In which year did the first person walk on the Moon?", "1969"),
    ("In which year did the Second World War end?", "1945"),
    ("In which year did the Berlin Wall fall?", "1989"),
    ("In which city does the Eiffel Tower stand?", "Paris"),
    ("In which country are the pyramids of Giza?", "Egypt"),
    ("In which country is Machu Picchu?", "Peru"),
    ("What colour do blue and yellow paint make?", "green"),
    ("What do bees make from nectar?", "honey"),
    ("What is the square root of 144?", "12"),
]


def main() -> None:
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else HERE
    write(target)


def write(target: Path) -> None:
    """Write the three files into ``target``."""
    for name, rows in (
        ("multiply", multiply_rows()),
        ("calculator", calculator_rows()),
        ("judged", judged_rows()),
    ):
        lines = (json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        (target / f"{name}.jsonl").write_text("".join(lines), encoding="utf-8")


def multiply_rows() -> Iterator[dict[str, str]]:
    chance = random.Random(SEED)
    seen: set[tuple[int, int]] = set()
    for count, left, right in MULTIPLY_TIERS:
        tier: list[tuple[int, int]] = []
        while len(tier) < count:
            pair = (chance.randint(*left), chance.randint(*right))
            if pair not in seen:
                seen.add(pair)
                tier.append(pair)
        for a, b in sorted(tier, key=lambda pair: (pair[0] * pair[1], pair)):
            yield row(MULTIPLY_PROMPT, f"Question: What is {a} x {b}?", str(a * b))


def calculator_rows() -> Iterator[dict[str, str]]:
    chance = random.Random(SEED)
    seen: set[str] = set()
    while len(seen) < CALCULATOR_ROWS:
        expression, result = an_expression(chance, harder=len(seen) >= CALCULATOR_ROWS // 2)
        if expression not in seen:
            seen.add(expression)
            yield row(CALCULATOR_PROMPT, f"Compute {expression}", str(result))


def an_expression(chance: random.Random, *, harder: bool) -> tuple[str, int]:
    """Two operations, or three when it is a harder one. Every result is whole."""
    a, b, c = chance.randint(2, 60), chance.randint(2, 40), chance.randint(2, 12)
    kind = chance.choice(["sum", "difference", "product", "quotient"])
    if kind == "sum":
        expression, result = f"({a} + {b}) * {c}", (a + b) * c
    elif kind == "difference":
        expression, result = f"({a + b} - {b}) * {c}", a * c
    elif kind == "product":
        expression, result = f"({a} * {c}) + {b}", a * c + b
    else:
        expression, result = f"({a * c - b} + {b}) / {c}", a
    if harder:
        d = chance.randint(2, 90)
        return f"({expression}) - {d}", result - d
    return expression, result


def judged_rows() -> Iterator[dict[str, str]]:
    for question, reference in QUESTIONS:
        yield row(JUDGED_PROMPT, question, reference)


def row(system_prompt: str, user_prompt: str, ground_truth: str) -> dict[str, str]:
    return {
        "system_prompt": system_prompt,
        "user_prompt": user_prompt,
        "ground_truth": ground_truth,
    }


if __name__ == "__main__":
    main()
