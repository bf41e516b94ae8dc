"""Conversions to and from types that a target lacks, as encodings: series of operators that it has.

Call `encode` and `decode`; `choose` selects one of three encodings by the hazards of the target that each withstands.

    table      one look-up; the fastest, for targets with BitCast
    bitcast    integer arithmetic on the bits, for targets with BitCast
    ladder     arithmetic, by sums and a logarithm, for targets without BitCast
    integer    integers below 8 bits, and numbers widened for one later rounding
    storage    values and weights stored as uint8 codes, or packed
"""
