"""Rules for Schemathesis that no schema can say.

Only requests that are meant to be right pass through here; wrong ones stay as they are.

- A time of a request lies before 9999-12-30T22:00:00Z, the end of the service's calendar.
- `from` lies before `to`, which is now unless it is given.
- A record's time is after 1970 and not ahead.
- An address of a client is a host's (`is_peer` of the service).
- A zone is one of the time zone database.
- `min_days` is at most `max_days`, and 7 with the history of a week; `next_min_s` is at most
  `next_max_s`. An earlier request may have set a value that this one leaves out, so all are set
  together or none.
"""

from __future__ import annotations

import ipaddress
import zoneinfo
from collections.abc import Mapping
from datetime import UTC, datetime
from urllib.parse import unquote

import schemathesis
from imtcp_advice.times import parse_time

END_OF_CALENDAR = datetime(9999, 12, 30, 22, tzinfo=UTC)
ZONES = zoneinfo.available_timezones()


@schemathesis.hook
def filter_case(_: object, case: schemathesis.Case) -> bool:
    if not is_meant_right(case):
        return True
    query = case.query or {}
    times = {key: parse_time(query[key]) for key in ("at", "from", "to") if key in query}
    if case.operation.label == "PUT /v1/clients/{dst}" and not is_peer(case.path_parameters["dst"]):
        return False
    if any(at >= END_OF_CALENDAR for at in times.values()):
        return False
    if "from" in times and times["from"] == times.get("to"):
        return False
    if "from" in times and "to" not in times and times["from"] >= datetime.now(UTC):
        return False
    return "settings" not in kind(case) or settings_agree(case.body)


@schemathesis.hook
def map_case(_: object, case: schemathesis.Case) -> schemathesis.Case:
    if not is_meant_right(case):
        return case
    query = case.query or {}
    if "from" in query and "to" in query and parse_time(query["from"]) > parse_time(query["to"]):
        query["from"], query["to"] = query["to"], query["from"]
    if "report" in kind(case):
        for record in case.body["records"]:
            year = 1971 + int(record["time"][:4]) % 50
            # 2024 and its like have a 29th of February, other years may not.
            record["time"] = f"{year}{record['time'][4:]}".replace("-02-29", "-02-28")
    return case


def is_meant_right(case: schemathesis.Case) -> bool:
    return case.meta is not None and case.meta.generation.mode.is_positive


def kind(case: schemathesis.Case) -> str:
    label = case.operation.label
    return {"PATCH /v1/paths/{dst}": "settings", "POST /v1/reports": "report"}.get(label, "")


def is_peer(dst: str) -> bool:
    """As it is in a path, where some characters are escaped."""
    try:
        address = ipaddress.ip_address(unquote(dst).strip("[]"))
    except ValueError:
        return True  # a name
    address = getattr(address, "ipv4_mapped", None) or address
    if address.is_multicast or address.is_loopback or address.is_link_local:
        return False
    if address.version == 4:
        return 0 < address.packed[0] < 240
    return not address.is_unspecified


def settings_agree(body: Mapping[str, object]) -> bool:
    if body.get("zone") is not None and body["zone"] not in ZONES:
        return False
    if ("history" in body) != ("min_days" in body):
        return False
    if body.get("history") == "week" and (body["min_days"] or 0) > 7:
        return False
    for least, most in [("min_days", "max_days"), ("next_min_s", "next_max_s")]:
        if (least in body) != (most in body):
            return False
        low, high = body.get(least), body.get(most)
        if (low is None) != (high is None) or (low is not None and low > high):
            return False
    return True
