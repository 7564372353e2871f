"""Makes an id from its parts, as a layout of seqsvr says: docs/guide/ids-protocol.md has the fields."""


def parse_layout(text):
    """Returns the fields from the least significant up: name, shift, greatest value, constant, is inverted."""
    fields, shift = [], 0
    for field in reversed(text.removeprefix("unsigned,").split(",")):
        name, size = field.split(":")
        bits, _, constant = size.partition("=")
        fields.append((name.strip("~"), shift, (1 << int(bits)) - 1, int(constant or 0), name.endswith("~")))
        shift += int(bits)
    return fields


def make_id(fields, rand, **parts):
    """Returns the id of these parts. A part that does not fit would change its neighbor, so it is an error."""
    made = 0
    for name, shift, most, constant, is_inverted in fields:
        value = rand & most if name == "rand" else constant if name in ("0", "const") else parts[name]
        if not 0 <= value <= most:
            raise OverflowError(f"{name} must be 0 to {most}, not {value}")
        made |= (value ^ most if is_inverted else value) << shift
        rand >>= most.bit_length() if name == "rand" else 0
    return made
