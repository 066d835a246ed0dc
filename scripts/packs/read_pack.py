#!/usr/bin/env python3
"""Read a pack of Tollgate's archive: read_pack.py FILE [ID]

It prints all rows as NDJSON, or the row of one identifier, which it finds by the index.
It verifies what it prints. It needs Python 3.8 and zstandard, and nothing of Tollgate.
A pack is a sequence of zstd frames with rows, and a skippable frame. That one holds an
index (a zstd frame of JSON), the SHA-256 of the frame, its size as u64, and "tollpack"."""
import bisect, hashlib, json, os, struct, sys
import zstandard


def need(ok, what):
    if not ok:
        sys.exit("the pack is damaged: " + what)


def read(file, offset, size, digest=None):
    file.seek(offset)
    data = file.read(size)
    need(len(data) == size, "it ends early")
    need(digest in (None, hashlib.sha256(data).hexdigest()), "SHA-256 of the %d bytes at %d" % (size, offset))
    return data


def unpack(packed, most):
    need(0 < zstandard.frame_content_size(packed) <= most, "the size of a frame")
    return zstandard.ZstdDecompressor().decompress(packed)


def index_of(file):
    size = file.seek(0, os.SEEK_END)
    need(size >= 56, "it is too short")
    digest, length, ending = struct.unpack("<32sQ8s", read(file, size - 48, 48))
    end = size - 56 - length  # of the rows
    need(ending == b"tollpack" and end >= 0, "it has no trailer")
    need(read(file, end, 8) == struct.pack("<II", 0x184D2A5E, length + 48), "it has no skippable frame")
    index = json.loads(unpack(read(file, end + 8, length, digest.hex()), 256 << 20))
    need(index["format"] == "tollgate-pack/1", "its format is " + index["format"])
    need(sum(frame["size"] for frame in index["frames"]) == end, "its frames")
    return index


def rows(file, frames):
    for frame in frames:
        packed = read(file, frame["offset"], frame["size"], frame["sha256"])
        yield from unpack(packed, frame["bytes"]).splitlines(keepends=True)


def main(path, wanted=None):
    with open(path, "rb") as file:
        frames = index_of(file)["frames"]
        if wanted is None:
            return sys.stdout.buffer.writelines(rows(file, frames))
        at = bisect.bisect_left([frame["last"] for frame in frames], wanted)
        found = [row for row in rows(file, frames[at:at + 1]) if json.loads(row)["id"] == wanted]
        sys.stdout.buffer.writelines(found)
        return None if found else "no row has the identifier " + wanted


sys.exit(main(*sys.argv[1:]))
