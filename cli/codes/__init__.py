"""The pages of `castsmith explain`: for each code what it does, why it matters, an example, and the advice.

`page_of` finds the page of a code and `page_text` prints it. The pages of passes are in `passes` and `lowering`, those
of findings in `check`.
"""
