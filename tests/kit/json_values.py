"""Strategies for JSON of every shape, for property tests."""

from hypothesis import settings
from hypothesis import strategies as st

FEW = settings(max_examples=25, deadline=None)
"""A test may take a second, also beside others."""

NUMBERS = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
json_values = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3)
    ),
    max_leaves=8,
)
