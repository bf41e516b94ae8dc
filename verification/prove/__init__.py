"""Proof that two models compute the same for all inputs: `prove(a, b)` names the proven outputs with reasons.

    proof    `prove`: two models read into one book
    values   the values of models, each written once into a `Book`: equal computations have one number
    normal   a book that normalizes expressions by functions of one element and by moves of elements
    tables   functions of one element, known for every element

These four are the rules; `elements` reads expressions as functions that serve to find inputs. The facts below them: how
programs of operators run (`programs`), which elements they cannot distinguish (`classes`), and the
element types of results (`types`).

Two outputs of one number are equal for all inputs; two numbers imply nothing. It covers the rewrites of this program:
casts removed, moved and folded, encodings instead of casts, functions expanded. It shares only
`castsmith.numerics` and the schemas with the passes, so that it can contradict them.
"""
