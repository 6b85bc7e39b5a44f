# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Asks an imtcp advice service what a transfer should do now. Needs the standard library alone.

from imtcp_advice import AdviceService

service = AdviceService("http://127.0.0.1:8750")
advice = service.advice("192.0.2.7", remaining_bytes=16_000_000_000)
print(advice.congestion_control, advice.available_bps, advice.ask_again_s)
"""

from .answer import Advice
from .client import (
    AdviceService,
    Record,
    RecordsLeftOutWarning,
    ServiceError,
    TokenInClearWarning,
)

__all__ = [
    "Advice",
    "AdviceService",
    "Record",
    "RecordsLeftOutWarning",
    "ServiceError",
    "TokenInClearWarning",
]
