# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Reads times of RFC 3339. `datetime.fromisoformat` reads only some of them before Python 3.11."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone

_TIME = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[Tt ](\d\d):(\d\d):(\d\d)(?:\.(\d+))?(?:[Zz]|([+-])(\d\d):(\d\d))",
    re.ASCII,
)


def parse_time(text: str) -> datetime:
    """The moment, with its offset; digits after the microsecond are cut off.

    ValueError if the text is no time of RFC 3339, or has no offset.
    """
    match = _TIME.fullmatch(text)
    if not match:
        raise ValueError("no time of RFC 3339 with an offset")
    year, month, day, hour, minute, second = (int(part) for part in match.groups()[:6])
    fraction, sign, offset_hours, offset_minutes = match.groups()[6:]
    offset = timedelta(hours=int(offset_hours or 0), minutes=int(offset_minutes or 0))
    if int(offset_minutes or 0) > 59:
        raise ValueError("an offset has at most 59 minutes")
    microsecond = int((fraction or "0")[:6].ljust(6, "0"))
    zone = timezone(-offset if sign == "-" else offset)
    # A leap second is counted as the second before it, as the service counts it.
    leap = second == 60
    return datetime(year, month, day, hour, minute, 59 if leap else second, microsecond, zone)
