"""Writes pydantic.json: JSON Schemas as pydantic makes them of models, and values for them.

    pip install pydantic==2.* && python pydantic.py
"""

import datetime
import decimal
import enum
import json
import pathlib
import sys
import uuid
from typing import Annotated, Literal, Optional, Union

# This file has the name of the package.
sys.path.pop(0)
from pydantic import BaseModel, ConfigDict, Field  # noqa: E402


class Color(enum.Enum):
    red = "red"
    green = "green"


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: Annotated[int, Field(ge=1, le=9)]


class Dog(BaseModel):
    kind: Literal["dog"]
    name: Annotated[str, Field(min_length=1, max_length=20, pattern=r"^[A-Z][a-z]*$")]


class Tree(BaseModel):
    name: str
    children: list["Tree"] = []


class Everything(BaseModel):
    model_config = ConfigDict(extra="forbid")

    id: uuid.UUID
    at: datetime.datetime
    price: decimal.Decimal
    ratio: Annotated[float, Field(gt=0, lt=1, multiple_of=0.25)] = 0.5
    color: Color = Color.red
    pet: Annotated[Union[Cat, Dog], Field(discriminator="kind")]
    tags: Annotated[set[str], Field(max_length=3)] = set()
    pair: tuple[int, str] = (1, "a")
    scores: dict[Annotated[str, Field(pattern=r"^\w+$")], float] = {}
    tree: Optional[Tree] = None


GOOD = {
    "id": "8d1e6f0a-57f5-4a4e-9d43-5cf60e6c2f7a",
    "at": "2026-01-31T12:00:00Z",
    "price": "12.50",
    "pet": {"kind": "cat", "lives": 9},
}
MORE = {
    "ratio": 0.25, "color": "green", "pet": {"kind": "dog", "name": "Rex"}, "tags": ["a", "b"], "pair": [2, "b"],
    "scores": {"maths": 1.5}, "tree": {"name": "root", "children": [{"name": "leaf"}]}, "price": 3,
}
WRONG = [
    {"price": "abc"}, {"price": "-"}, {"price": None}, {"ratio": 0.3}, {"ratio": 1}, {"color": "blue"},
    {"pet": {"kind": "cat", "lives": 10}}, {"pet": {"kind": "dog", "name": "rex"}}, {"pet": {"kind": "cow"}},
    {"tags": ["a", "a"]}, {"tags": ["a", "b", "c", "d"]}, {"pair": [1]}, {"pair": [1, "a", 2]}, {"pair": ["a", 1]},
    {"scores": {"maths": "x"}}, {"tree": {"name": "root", "children": [{"nam": "leaf"}]}}, {"tree": 5}, {"extra": 1},
    {"id": 5},
]
cases = [{
    "name": "everything",
    "schema": Everything.model_json_schema(),
    "values": [GOOD, GOOD | MORE, *[GOOD | wrong for wrong in WRONG], {}],
}, {
    "name": "a tree",
    "schema": Tree.model_json_schema(),
    "values": [{"name": "a"}, {"name": "a", "children": [{"name": "b", "children": [{"name": 5}]}]}, {"children": []}],
}]
pathlib.Path(__file__).with_suffix(".json").write_text(json.dumps(cases, indent=1) + "\n")
