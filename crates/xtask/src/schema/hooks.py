"""Hooks of schemathesis for this server.

A response with status 422 may report only what no schema can express.

A bound that the document can state belongs in the document. A request that breaks such a bound does
not fit the document, and its response is not checked here.
"""

import re

import schemathesis

# Beginnings of the messages. Each depends on the namespace or the key, or on several fields.
BEYOND_SCHEMAS = [
    # Bytes of a text that has at most 128 characters.
    r"a key has 1 to 128 bytes, not \d{3}$",
    # The kind of the namespace, and its bounds.
    r"namespace .* is dense and takes a uid",
    r"uid \d+ is not below the max_uid",
    r"count must be 1 to \d+ in this namespace",
    # The present values of the key and of its section.
    r"the raise to \d+ is above the limit of",
    r"floor or epoch is ahead of this cluster",
    r"the sequence would pass 2\^63-1",
    # Columns of different lengths.
    r"(counts|floors|epochs) has \d+ entries for \d+ items",
    r"one NextMany takes at most 10000000 numbers",
]

# Fields that are lists. In a form `epochs=0` is always a list of one, and an empty list is absent.
LISTS = {"uids", "keys", "keys_base64", "counts", "floors", "epochs"}
FORM = "application/x-www-form-urlencoded"


@schemathesis.hook
def filter_case(ctx, case):
    """Leaves out what a form cannot express, and numbers like `1.0`.

    JSON Schema takes those numbers for integers. The server rejects them, as the description in the
    document says: a text with a fraction may be a rounded number.
    """
    if not isinstance(case.body, dict):
        return True
    values = list(case.body.values())
    for value in case.body.values():
        if isinstance(value, list):
            values.extend(value)
    if any(isinstance(value, float) and value.is_integer() for value in values):
        return False
    if case.media_type != FORM:
        return True
    lists = [case.body[name] for name in LISTS & case.body.keys()]
    return all(isinstance(value, dict) or (isinstance(value, list) and value) for value in lists)


@schemathesis.check
def unprocessable_response_is_beyond_schemas(ctx, response, case):
    """Fails if the document could state the reason of a 422."""
    if response.status_code != 422 or not case.meta.generation.mode.is_positive:
        return
    message = response.json()["error"]["message"]
    assert any(re.match(known, message) for known in BEYOND_SCHEMAS), (
        "the server rejected a request that fits the document, and the document can state the "
        f"reason: {message}"
    )
