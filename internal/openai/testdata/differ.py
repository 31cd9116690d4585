"""Reads cases on stdin and prints one verdict a line: agree, refused, or DISAGREE and why.

A case is three blocks, each a 4-byte big-endian length and that many bytes: the body, what the
scanner read of it as JSON, and the scanner's span of messages. The body is read here the way an
engine written in Python reads it: the json module, then pydantic in lax mode where it is installed.
"""

import json
import struct
import sys

try:
    from typing import Optional

    from pydantic import BaseModel, ValidationError

    class Body(BaseModel):
        model: Optional[str] = None
        stream: Optional[bool] = None
        n: Optional[int] = None
        max_tokens: Optional[int] = None
        max_completion_tokens: Optional[int] = None

    def fields(d):
        try:
            return Body(**{k: d[k] for k in Body.model_fields if k in d}), None
        except ValidationError as e:
            return None, {str(x["loc"][0]) for x in e.errors()}

except ImportError:

    class Body:
        pass

    def whole(v):
        if v is None or isinstance(v, (bool, int)):
            return v if v is None else int(v)
        if isinstance(v, float) and v == v and abs(v) < 2**63 and v == int(v):
            return int(v)
        raise ValueError

    def flag(v):
        if v is None or isinstance(v, bool) or v in (0, 1):
            return v if v is None else bool(v)
        raise ValueError

    def name(v):
        if v is None or isinstance(v, str):
            return v
        raise ValueError

    def fields(d):
        b, bad = Body(), set()
        for k, f in (("model", name), ("stream", flag), ("n", whole), ("max_tokens", whole), ("max_completion_tokens", whole)):
            if f is not name and isinstance(d.get(k), str):
                raise NotImplementedError  # text as a number is pydantic's own business
            try:
                setattr(b, k, f(d.get(k)))
            except ValueError:
                bad.add(k)
        return (None, bad) if bad else (b, None)


class Constant(Exception):
    pass


def constant(_):
    raise Constant


class Duplicate(Exception):
    pass


def pairs(items):
    d = dict(items)
    if len(d) != len(items):
        raise Duplicate
    return d


def strict(body):
    """None if the body is plain JSON, else why it is not."""
    if body.startswith(b"\xef\xbb\xbf"):
        return "byte order mark"
    try:
        text = body.decode("utf-8")
        v = json.loads(text, parse_constant=constant)
        json.dumps(v, ensure_ascii=False).encode("utf-8")
    except Constant:
        return "constant"
    except ValueError:  # text, or JSON in UTF-16
        return "text"
    return None


def duplicate(body):
    try:
        json.loads(body, object_pairs_hook=pairs)
    except Duplicate:
        return True
    return False


def engine(body):
    try:
        d = json.loads(body)
    except (ValueError, RecursionError) as e:
        return None, str(e)
    return (d, None) if isinstance(d, dict) else (None, "not an object")


NAMES = ("model", "stream", "n", "max_tokens", "max_completion_tokens")


def limit(b):
    return b.max_tokens if b.max_completion_tokens is None else b.max_completion_tokens


def accepted(d, got, span):
    b, bad = fields(d)
    if bad:
        return "engine refuses " + ",".join(sorted(bad))
    want = {
        "model": b.model or "",
        "stream": bool(b.stream),
        "n": 1 if b.n is None else b.n,
        "max": -1 if limit(b) is None else limit(b),
    }
    for k, v in want.items():
        if got[k] != v or type(got[k]) is not type(v):
            return "%s: got %r, engine %r" % (k, got[k], v)
    if json.loads(span) != d.get("messages"):
        return "messages differ"
    return None


def refused(d, body, got):
    code, param = got["code"], got["param"]
    if code == "limit_exceeded" or code == "missing_required_parameter":
        return None
    if code == "duplicate_key":
        return None if duplicate(body) else "no duplicate"
    if code == "invalid_json":
        return None if strict(body) or duplicate(body) else "plain JSON"
    if param in NAMES and not duplicate(body):
        b, bad = fields({param: d[param]})
        if bad:
            return None
        v = getattr(b, param)
        if v is not None and (param == "n" and not 1 <= v <= 128 or param.startswith("max") and not 1 <= v <= 2**31 - 1):
            return None
        return "engine reads " + param
    return None


def verdict(body, got, span):
    d, why = engine(body)
    try:
        if got["ok"]:
            why = accepted(d, got, span) if d is not None else "engine: " + why
            return "agree" if why is None else "DISAGREE " + why
        why = None if d is None else refused(d, body, got)
        return "refused" if why is None else "DISAGREE refused with %s but %s" % (got["code"], why)
    except NotImplementedError:
        return "unknown"


def block(f):
    head = f.read(4)
    if len(head) < 4:
        return None
    return f.read(struct.unpack(">I", head)[0])


def main():
    f = sys.stdin.buffer
    while (body := block(f)) is not None:
        got, span = json.loads(block(f)), block(f)
        print(verdict(body, got, span).encode("ascii", "backslashreplace").decode())


main()
