"""Facts about operators: their schemas, and a table with one row of traits per operator for what schemas do not say.

Start with `op_key(node, imports)`, the operator and its version, and `traits_of(domain, op_type)`, its row.

    formals          `Formal`, a formal parameter
    schemas          types of inputs and outputs by opset: `op_formals`, `type_groups`, `opset_of`
    table            the rows; `operators` gives those that satisfy a condition, `type_attributes` and `named_types` the
                     attributes that name types, `restriction` limits that only the operator's document states;
                     MOVERS, CASTS, CONVERSIONS, LINEAR, FLOW, RUNS_GRAPHS and GIVES_BOOL are sets of operators
    traits           `Traits`, a row, and the words in it
    movement         what a move of elements does to shapes: `movement_of`, one rule for each operator
    moves            the moves of arrays, as data and as functions
    changes          `changes_between`: what an operator computes otherwise from an opset on
    casts            `read_cast` reads any cast node as a `CastNode`, `cast_node` makes one
    promote_types    the operator ConvertPromoteTypes
    attributes       attributes of a node, checked
    contrib          the operators of com.microsoft: `contrib_schema`
    qonnx            the operators of QONNX: `read_trunc`, `is_quantizer`
    value_types      types of values, also nested ones, and of attributes: `set_element_type`, `naming`
"""
