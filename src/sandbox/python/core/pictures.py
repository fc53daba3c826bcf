"""Images of a size that models take: at most SIDE pixels on a side, and about LARGE bytes. Pillow does it, where there is one."""

import array
import io
import math
import struct
import sys

SIDE = 1568
LARGE = 1_000_000
_EIGHT_BITS = ("1", "L", "LA", "P", "RGB", "RGBA")
_WITH_ALPHA = {"PA": "RGBA", "La": "LA", "RGBa": "RGBA"}


def is_picture(one):
    kind = getattr(sys.modules.get("PIL.Image"), "Image", None)
    return isinstance(kind, type) and isinstance(one, kind)


def _is_jpeg(data):
    return data[:3] == b"\xff\xd8\xff"


def _is_png(data):
    return data[:8] == b"\x89PNG\r\n\x1a\n" and len(data) >= 24


def is_known(data):
    return _is_png(data) or _is_jpeg(data)


def fitted(data, most_pixels=None):
    """(data of a PNG or JPEG file, made smaller where it is large, remark or None). most_pixels: beyond, it stays as it is."""
    side = max(struct.unpack(">II", data[16:24])) if _is_png(data) else 0
    if len(data) <= LARGE and side <= SIDE and not _is_jpeg(data):
        return data, None
    try:
        from PIL import Image
    except ImportError:
        return data, None  # the worker says it where it is too large
    image = Image.open(io.BytesIO(data))
    if len(data) <= LARGE and max(image.size) <= SIDE:
        return data, None
    if most_pixels is not None and image.width * image.height > most_pixels:
        return data, None
    return encoded(image)


def encoded(image):
    """(PNG or JPEG, remark or None) of a picture of Pillow's, which stays as it is."""
    was_jpeg = image.format in ("JPEG", "MPO")
    image, remark = _still(image)
    image, changed = _shown_mode(image)
    remark = remark or changed
    image = _within(image, SIDE)
    data = _smaller(_jpeg(image), _png(image)) if was_jpeg else _png(image)
    if len(data) > LARGE and not _is_jpeg(data):
        data = _smaller(_jpeg(image), data)
    while len(data) > LARGE and max(image.size) > 256:
        image = _within(image, max(image.size) * 3 // 4)
        data = _jpeg(image)
    return data, remark


def _smaller(one, other):
    return one if len(one) < len(other) else other


def _still(image):
    """(the first frame of an animation, remark)."""
    count = getattr(image, "n_frames", 1)
    if not getattr(image, "is_animated", False) or count < 2:
        return image, None
    at = image.tell()
    image.seek(0)
    try:
        return image.copy(), f"is an animation: the first of its {count} frames is shown"
    finally:
        image.seek(at)


def _shown_mode(image):
    """(image in a mode of eight bits that PNG has, remark)."""
    mode = image.mode
    if mode in _EIGHT_BITS:
        return image, None
    if mode[0] in "IF":
        return _levels(image)
    return image.convert(_WITH_ALPHA.get(mode, "RGB")), None


def _levels(image):
    """Numbers as shades of grey, from the least to the most that is finite."""
    if image.mode != "F":
        image = image.convert("I")
    least, most, others = _range(image)
    said = ["holds numbers"]
    if least < most:
        said = [f"holds numbers: {least:g} is shown as black, {most:g} as white"]
        scale = 255 / (most - least)
        image = image.convert("F").point(lambda level: level * scale - least * scale)
    if others:
        said.append(f"{others} of {image.width * image.height} are not finite, and NaN is shown as black")
    return image.convert("L"), "; ".join(said) if least < most or others else None


def _range(image):
    """(least, most, number of those that are neither: NaN and infinite ones)."""
    if image.mode == "I":
        return *image.getextrema(), 0
    levels = array.array("f", image.tobytes())
    finite = array.array("f", filter(math.isfinite, levels))
    return min(finite, default=0), max(finite, default=0), len(levels) - len(finite)


def _within(image, side):
    longest = max(image.size)
    if longest <= side:
        return image
    if image.mode in ("1", "P"):
        image = image.convert("RGBA" if "transparency" in image.info else "RGB" if image.mode == "P" else "L")
    size = [max(1, round(one * side / longest)) for one in image.size]
    return image.resize(size, 1)  # LANCZOS, under which name depends on the version


def _png(image):
    file = io.BytesIO()
    image.save(file, "PNG", optimize=True)
    return file.getvalue()


def _jpeg(image):
    if "A" in image.mode or "transparency" in image.info:
        from PIL import Image

        image = image.convert("RGBA")
        white = Image.new("RGBA", image.size, (255, 255, 255, 255))
        image = Image.alpha_composite(white, image)
    file = io.BytesIO()
    (image if image.mode == "L" else image.convert("RGB")).save(file, "JPEG", quality=85)
    return file.getvalue()
