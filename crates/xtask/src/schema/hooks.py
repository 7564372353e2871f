"""What schemathesis is told about this server.

A response with status 422 may say only what no schema can express.

A bound that the document can state belongs into the document. Then the request that breaks it is no request that
fits the document, and its response is not checked here.
"""

import re

import schemathesis

# Beginnings of the messages. Each depends on the namespace or the key, or on several fields at once.
BEYOND_SCHEMAS = [
    # Bytes of a text that has at most 128 characters.
    r"a key has 1 to 128 bytes, not \d{3}$",
    # What kind of namespace it is, and its bounds.
    r"namespace .* is dense and takes a uid",
    r"uid \d+ is not below the max_uid",
    r"count must be 1 to \d+ in this namespace",
    # How far the key, and the section, have come.
    r"the raise to \d+ is above the bound",
    r"floor or epoch is above anything this cluster has given out",
    r"the sequence would pass 2\^63-1",
    # Columns of different lengths.
    r"(counts|floors|epochs) has \d+ entries for \d+ items",
    r"one NextMany takes at most 10000000 numbers",
]

# Fields that are lists. In a form `epochs=0` is a list of one, however it was made, and an empty list is absent.
LISTS = {"uids", "keys", "keys_base64", "counts", "floors", "epochs"}
FORM = "application/x-www-form-urlencoded"


@schemathesis.hook
def filter_case(ctx, case):
    """Leaves out what a body cannot show, and numbers like `1.0`.

    JSON Schema takes those for integers. The server rejects them, as the document says in words: a text with a
    fraction part may have been rounded.
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
def unprocessable_says_what_no_schema_can(ctx, response, case):
    if response.status_code != 422 or not case.meta.generation.mode.is_positive:
        return
    message = response.json()["error"]["message"]
    assert any(re.match(known, message) for known in BEYOND_SCHEMAS), (
        f"a request that fits the document was rejected, and the document can say why: {message}"
    )
