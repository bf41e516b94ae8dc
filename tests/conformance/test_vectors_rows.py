"""What the rows of casts say: from which opset, by which sentence, and which of them share a file of inputs."""

from __future__ import annotations

import pytest

from castsmith.conformance.vectors import bit_cast_vectors, cast_vectors, clause_of, every_type
from castsmith.numerics.status import Definedness
from castsmith.numerics.types import ElementType, element_type, parse_type, type_name

_CLAUSES = {
    "same": "Cast: a value keeps its type and its bits",
    "print": "Cast: a number as text in plain or scientific notation",
    "text": "Cast: the number that the text spells, rounded once",
    "bool": "Cast: zero, of either sign, gives False, every other number True; True gives 1",
    "wrap": "Cast: between integers, the higher bits are discarded (two's complement)",
    "truncate": "Cast: truncation toward zero within the range of the integer type",
    "round": "Cast: the nearest number, ties to the even one (IEEE 754); beyond the range infinity",
    "saturate": "Cast: types without infinity and NaN saturate; between numbers to nearest, ties to even",
    "table0": "Cast: the tables of float8 for saturate = 0; between numbers to nearest, ties to even",
    "table1": "Cast: the tables of float8 for saturate = 1; between numbers to nearest, ties to even",
    "up1": "Cast: the table of float8e8m0 for round_mode = up, saturate = 1",
    "down0": "Cast: the table of float8e8m0 for round_mode = down, saturate = 0",
}
_DECIDED = """
float float same | float8e5m2 float8e5m2 same | string string same | bool bool same | int8 int8 same
float string print | int4 string print | bool string print
string float text | string int8 text | string float8e8m0 text | string float8e4m3fn text
bool float bool | bool int32 bool | bool float8e8m0 bool | bool float8e4m3fn bool | float bool bool | int8 bool bool
int8 uint8 wrap | uint64 int2 wrap | float int8 truncate | float8e8m0 uint4 truncate | bfloat16 int64 truncate
float float16 round | int64 float round | float16 bfloat16 round | double float round | float8e8m0 float round
float float4e2m1 saturate | float float6e2m3 saturate | int8 float6e3m2 saturate | float8e5m2 float4e2m1 saturate
float float8e4m3fn table1 | float float8e5m2fnuz table1 | int8 float8e5m2 table1 | float8e8m0 float8e4m3fnuz table1
float float8e4m3fn no_saturate table0 | float8e5m2 float8e5m2fnuz no_saturate table0
float float8e8m0 up1 | int8 float8e8m0 up1 | float8e4m3fn float8e8m0 down no_saturate down0
"""
"""Two types, settings, and the sentence that decides."""


def test_the_sentence_that_decides_a_cast() -> None:
    for line in _DECIDED.replace("\n", "|").split("|"):
        if not line.strip():
            continue
        a, b, *words, name = line.split()
        mode = "down" if "down" in words else "up"
        clause = clause_of(_row(a), _row(b), saturate="no_saturate" not in words, round_mode=mode)
        assert clause == _CLAUSES[name], line


def _row(name: str) -> ElementType:
    return element_type(parse_type(name))


_CASTS = """
Cast bool float8e4m3fnuz
bool_to_bool 13 28 bool
bool_to_float8e4m3fnuz 19 23 bool
bool_to_float8e4m3fnuz 24 28 bool
bool_to_float8e4m3fnuz_no_saturate 19 28 bool
float8e4m3fnuz_to_bool 19 28 float8e4m3fnuz
float8e4m3fnuz_to_float8e4m3fnuz 19 23 float8e4m3fnuz
float8e4m3fnuz_to_float8e4m3fnuz 24 28 float8e4m3fnuz
float8e4m3fnuz_to_float8e4m3fnuz_no_saturate 19 28 float8e4m3fnuz
Cast bool float8e8m0
bool_to_bool 13 28 bool
bool_to_float8e8m0 24 28 bool
bool_to_float8e8m0_no_saturate 24 28 bool
bool_to_float8e8m0_down 24 28 bool
bool_to_float8e8m0_no_saturate_down 24 28 bool
bool_to_float8e8m0_nearest 24 28 bool
bool_to_float8e8m0_no_saturate_nearest 24 28 bool
float8e8m0_to_bool 24 28 float8e8m0
float8e8m0_to_float8e8m0 24 28 float8e8m0
float8e8m0_to_float8e8m0_no_saturate 24 28 float8e8m0
float8e8m0_to_float8e8m0_down 24 28 float8e8m0
float8e8m0_to_float8e8m0_no_saturate_down 24 28 float8e8m0
float8e8m0_to_float8e8m0_nearest 24 28 float8e8m0
float8e8m0_to_float8e8m0_no_saturate_nearest 24 28 float8e8m0
Cast float16 int4 float string float6e2m3
float16_to_float16 13 28 float16
float16_to_int4 21 28 float16
float16_to_float 13 28 float16
float16_to_string 13 28 float16_for_string
float16_to_float6e2m3 28 28 float16
int4_to_float16 21 28 int4
int4_to_int4 21 28 int4
int4_to_float 21 28 int4
int4_to_string 21 28 int4
int4_to_float6e2m3 28 28 int4
float_to_float16 13 28 float_for_float16
float_to_int4 21 28 float_for_int4
float_to_float 13 28 float_for_float
float_to_string 13 28 float_for_string
float_to_float6e2m3 28 28 float_for_float6e2m3
string_to_float16 13 28 string
string_to_int4 21 28 string
string_to_float 13 28 string
string_to_string 13 28 string
string_to_float6e2m3 28 28 string
float6e2m3_to_float16 28 28 float6e2m3
float6e2m3_to_int4 28 28 float6e2m3
float6e2m3_to_float 28 28 float6e2m3
float6e2m3_to_string 28 28 float6e2m3
float6e2m3_to_float6e2m3 28 28 float6e2m3
Cast int8 string
int8_to_int8 13 28 int8
int8_to_string 13 28 int8
string_to_int8 13 28 string
string_to_string 13 28 string
CastLike float16 uint2 string float6e3m2
float16_to_float16 15 28 float16_like_float16
float16_to_uint2 25 28 float16_like_uint2
float16_to_string 15 28 float16_like_string
uint2_to_float16 25 28 uint2
uint2_to_uint2 25 28 uint2
uint2_to_string 25 28 uint2
string_to_float16 15 28 string
string_to_uint2 25 28 string
string_to_string 15 28 string
Cast complex64 bool
bool_to_bool 13 28 bool
"""
"""The operator and the types, and below them the vectors: names, first and last opsets, and files of inputs."""


def _casts() -> list[tuple[str, list[str], list[str]]]:
    blocks = list[tuple[str, list[str], list[str]]]()
    for line in _CASTS.strip().splitlines():
        words = line.split()
        if line.startswith("Cast"):
            blocks.append((words[0], [*words[1:]], []))
        else:
            name, first, *others = words
            blocks[-1][2].append(" ".join([f"{name}_opset{first}", first, *others]))
    return blocks


@pytest.mark.parametrize(("op", "types", "expected"), _casts())
def test_the_casts_of_some_types(op: str, types: list[str], expected: list[str]) -> None:
    vectors = list(cast_vectors(op, [parse_type(name) for name in types]))
    prefix = f"{op.lower()}_"
    assert [
        f"{vector.name.removeprefix(prefix)} {vector.opset} {vector.last_opset} {vector.inputs[0].file}"
        for vector in vectors
    ] == expected
    for vector in vectors:
        source, target = vector.name.removeprefix(prefix).partition("_opset")[0].split("_to_")
        target, *words = target.split("_")
        assert (type_name(vector.inputs[0].dtype), type_name(vector.output_type)) == (source, target)
        attributes: dict[str, object] = {"to": int(parse_type(target))} if op == "Cast" else {}
        attributes |= {"saturate": 0} if "saturate" in words else {}
        attributes |= {"round_mode": words[-1]} if words and words[-1] in ("down", "nearest") else {}
        assert (dict(vector.attributes), vector.domain, vector.domain_version) == (attributes, "", 1)
        likes = [
            (operand.name, type_name(operand.dtype), operand.file, operand.elements.size)
            for operand in vector.inputs[1:]
        ]
        assert likes == ([("target_type", target, f"one_{target}", 1)] if op == "CastLike" else [])
        expected_clause = clause_of(
            _row(source),
            _row(target),
            saturate="saturate" not in words,
            round_mode=str(attributes.get("round_mode", "up")),
        )
        assert vector.clause == expected_clause


def test_one_opset_of_casts() -> None:
    """Of the opsets at which a result changes, each is asked for alone, and one before the type is."""
    types = [parse_type(name) for name in ("bool", "float8e5m2fnuz")]
    for opset, count in ((13, 1), (18, 1), (19, 6), (23, 6), (24, 6), (28, 6)):
        vectors = list(cast_vectors("Cast", types, opset))
        assert {(vector.opset, vector.last_opset) for vector in vectors} == {(opset, opset)}
        assert (len(vectors), {vector.name.partition("_opset")[2] for vector in vectors}) == (count, {str(opset)})
    assert [len(list(cast_vectors("CastLike", types, opset))) for opset in (14, 15, 18, 19, 28)] == [0, 1, 1, 6, 6]


def test_infinity_that_saturates_to_the_same_type_is_disputed() -> None:
    """Of float8e5m2 alone, which has an infinity and the attribute: its codes are 7C and FC."""
    for name, open_at in (("float8e5m2", [0x7C, 0xFC]), ("float8e4m3fn", []), ("float16", []), ("float8e5m2fnuz", [])):
        for vector in cast_vectors("Cast", [parse_type(name)]):
            spans = [] if "saturate" in vector.attributes else open_at
            assert [(span.start, span.stop, span.standing) for span in vector.spans] == [
                (at, at + 1, Definedness.DISPUTED) for at in spans
            ]


_OF_A_WIDTH = (
    "int2 uint2", "int4 uint4 float4e2m1", "int16 uint16 float16 bfloat16", "int32 uint32 float", "int64 uint64 double",
    "int8 uint8 float8e4m3fn float8e4m3fnuz float8e5m2 float8e5m2fnuz float8e8m0",
)  # fmt: skip
"""The types of BitCast; bool is read as one of 8 bits, and the types of 6 bits came after it."""


def test_the_types_of_bit_casts() -> None:
    groups = [group.split() for group in _OF_A_WIDTH]
    expected = {(a, b) for group in groups for a in group for b in group if a != b} | {
        ("bool", name) for name in groups[-1]
    }
    vectors = list(bit_cast_vectors(every_type()))
    assert len(vectors) == len(expected)
    assert {(type_name(vector.inputs[0].dtype), type_name(vector.output_type)) for vector in vectors} == expected
    for vector in vectors:
        source, target = type_name(vector.inputs[0].dtype), type_name(vector.output_type)
        assert vector.name == f"bitcast_{source}_to_{target}_opset26"
        assert (vector.opset, vector.last_opset, dict(vector.attributes)) == (26, 28, {"to": int(vector.output_type)})
        wide = source in ("float", "double") or source.endswith(("32", "64"))
        assert vector.inputs[0].file == (f"{source}_for_{target}" if wide else source)
        assert (vector.output.tobytes(), list(vector.spans)) == (vector.inputs[0].elements.tobytes(), [])
    pair = [parse_type("int8"), parse_type("uint8")]
    at = {
        opset: [(vector.opset, vector.last_opset) for vector in bit_cast_vectors(pair, opset)] for opset in (25, 26, 27)
    }
    assert at == {25: [], 26: [(26, 26)] * 2, 27: [(27, 27)] * 2}
    assert list(bit_cast_vectors([parse_type("complex64"), parse_type("double"), parse_type("string")])) == []
