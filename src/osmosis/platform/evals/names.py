"""Names of runs: ``adjective-animal-NN``, easy to say and to type, unique per workspace."""

from __future__ import annotations

import secrets
from collections.abc import Container


def _words(text: str) -> list[str]:
    return text.split()


ADJECTIVES = _words(
    "amber ancient autumn bold brave breezy bright brisk calm candid clever copper cosmic cosy "
    "crisp curious dapper daring dawn deep eager early earnest easy fabled fair fancy fleet fond "
    "frank free fresh gentle glad golden grand green happy hardy hidden honest humble jolly keen "
    "kind lively loyal lucid lucky lunar mellow merry mighty misty modest neat nimble noble "
    "olive patient plain polar proud quick quiet rapid ready rustic scarlet serene sharp silent "
    "silver sincere sleek smooth snowy solar solid steady still stout sunny swift tidy tranquil "
    "upbeat velvet vivid warm wild wise witty young zesty"
)

ANIMALS = _words(
    "albatross alpaca antelope badger bat bear beaver beetle bison bobcat buffalo camel caribou "
    "cat cheetah cobra condor cougar coyote crane cricket crow deer dingo dolphin donkey dove "
    "eagle eel egret elk falcon ferret finch firefly flamingo fox gazelle gecko gibbon giraffe "
    "goose gopher gull hare hawk hedgehog heron hippo hornet horse ibex ibis iguana jackal "
    "jaguar kestrel koala lark lemur leopard lion lizard llama lynx magpie manatee marmot marten "
    "mole moose newt ocelot octopus orca oriole osprey otter owl panda panther parrot pelican "
    "penguin pheasant puffin puma quail rabbit raccoon raven robin salmon seal shark sparrow "
    "squid stork swan tapir tern tiger toad trout turtle viper walrus weasel whale wolf wombat "
    "wren yak zebra"
)

NUMBERS = 100
TRIES = 50


def new_run_name(taken: Container[str]) -> str:
    """A name that is not in ``taken``; a longer one when luck fails in a crowded workspace."""
    for _ in range(TRIES):
        name = (
            f"{secrets.choice(ADJECTIVES)}-{secrets.choice(ANIMALS)}-{secrets.randbelow(NUMBERS)}"
        )
        if name not in taken:
            return name
    return f"{secrets.choice(ADJECTIVES)}-{secrets.choice(ANIMALS)}-{secrets.token_hex(4)}"
