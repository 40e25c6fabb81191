"""Cuts a GGUF v3 file into parts as llama.cpp's splitter names them: all metadata in the first,
the tensors shared out in order.

SPDX-License-Identifier: Apache-2.0
"""

import pathlib
import struct

# Bytes of a value by its type; 8 is a string and 9 an array.
VALUE_BYTES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
STRING, ARRAY, UINT16, INT32 = 8, 9, 2, 5
ALIGNMENT = 32


class Cursor:
    def __init__(self, data):
        self.data, self.at = data, 0

    def read(self, form):
        value, = struct.unpack_from("<" + form, self.data, self.at)
        self.at += struct.calcsize("<" + form)
        return value

    def string(self):
        length = self.read("Q")
        self.at += length
        return self.data[self.at - length:self.at]

    def skip_value(self, kind):
        if kind == STRING:
            self.string()
        elif kind == ARRAY:
            item, count = self.read("I"), self.read("Q")
            for _ in range(count):
                self.skip_value(item)
        else:
            self.at += VALUE_BYTES[kind]


def padded(data):
    return data + b"\0" * (-len(data) % ALIGNMENT)


def field(name, kind, form, value):
    return struct.pack("<Q", len(name)) + name + struct.pack("<I" + form, kind, value)


def parse(data):
    """(number of fields, their bytes, [(name, dims, type, bytes)])"""
    cursor = Cursor(data)
    cursor.at = 8  # magic, version
    n_tensors, n_fields = cursor.read("Q"), cursor.read("Q")
    begin = cursor.at
    for _ in range(n_fields):
        name = cursor.string()
        assert name != b"general.alignment"
        cursor.skip_value(cursor.read("I"))
    fields = data[begin:cursor.at]
    infos = []
    for _ in range(n_tensors):
        name = cursor.string()
        dims = [cursor.read("Q") for _ in range(cursor.read("I"))]
        infos.append((name, dims, cursor.read("I"), cursor.read("Q")))
    start = len(padded(data[:cursor.at]))
    ends = sorted(info[3] for info in infos)[1:] + [len(data) - start]
    end_of = dict(zip(sorted(info[3] for info in infos), ends))
    return n_fields, fields, [(name, dims, kind, data[start + at:start + end_of[at]])
                              for name, dims, kind, at in infos]


def split(source, stem, count):
    """Writes STEM-0000i-of-0000n.gguf and gives their paths."""
    n_fields, fields, tensors = parse(pathlib.Path(source).read_bytes())
    paths = []
    for number in range(count):
        mine = tensors[number * len(tensors) // count:(number + 1) * len(tensors) // count]
        own = (field(b"split.no", UINT16, "H", number) + field(b"split.count", UINT16, "H", count)
               + field(b"split.tensors.count", INT32, "i", len(tensors)))
        first = number == 0
        head = b"GGUF" + struct.pack("<IQQ", 3, len(mine), 3 + (n_fields if first else 0))
        head += (fields if first else b"") + own
        body = b""
        for name, dims, kind, content in mine:
            head += struct.pack("<Q", len(name)) + name
            head += struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, kind, len(body))
            body += padded(content)
        path = pathlib.Path(f"{stem}-{number + 1:05}-of-{count:05}.gguf")
        path.write_bytes(padded(head) + body)
        paths.append(path)
    return paths
