/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * ImTCP's inline measurement of available bandwidth: the Control unit (when packets leave) and
 * the Measurement unit (what their ACKs say).
 *
 * One measurement [IM §3.2] cuts a search range (B_l, B_u) into k sub-ranges, the highest first,
 * with a stream for each (stream.h). The trends choose a sub-range, and its two lines the value.
 * Past values set the next range. The first range is (A_c/2, A_c), A_c the dispersion
 * rate of packets that left back to back (Cprobe).
 *
 * Control unit [IM §3.3, fig. 5]
 *
 *                   m packets held                      last stream of a measurement
 *        ┌─────────┐─────────────▶┌────────┐──────────────────────────▶┌────────┐
 *   ┌───▶│  STORE  │              │  SEND  │                           │  PASS  │──┐
 *   │    └─────────┘◀─────────────└────────┘                           └────────┘  │
 *   │         │      m still held      │ other streams                             │
 *   │         │ T over, cwnd < N       ▼                                           │
 *   │         ▼    ┌──────────────────────────┐                                    │
 *   └──────────────│          EMPTY           │     all ACKs are in, pause over    │
 *   ▲              └──────────────────────────┘                                    │
 *   └──────────────────────────────────────────────────────────────────────────────┘
 *
 * The unit owns no buffer and no timer. It answers one question, asked before each departure:
 * at which rate is the gap *after* the packet that leaves now? The caller's pacing timer does
 * the holding. A long gap after the packet before holds a packet, never for longer than T. A
 * stream is a row of computed gaps. So nothing waits for an event that might not come.
 * imtcp_meas_on_send may be asked any number of times before a packet really leaves; it moves
 * on only when snd_nxt has.
 *
 * References: [IM] throughout; [BG §3.1].
 *
 * Differences from the paper
 *  1. Held packets are counted as room in the window (cwnd - flight) with data waiting, since
 *     that is what a buffer below TCP would have collected.
 *  2. After a stream that leaves m packets held, the next one follows at once. Else the room
 *     is filled at IMTCP_EMPTY_GAIN_Q8 times the ordinary rate and at most at the capacity, not in
 *     one burst.
 *  3. The sums for a = k and a = k + 1 tie. The fit decides: A is below the range if every
 *     interval of stream k is strained. Other ties go to the higher sub-range.
 *     If every interval of stream a is strained, A is read from the next lower stream.
 *  4. For a = 0, A := B_u and for a = k + 1, A := B_l: the paper prints the two exchanged.
 *  5. A failed store raises m (the paper prints "decrement").
 *  6. Results carry validity; bunched ACKs and results above the sustained rate are rejected.
 *  7. The pause between measurements follows congestion (left open in [IM §4.5]).
 */
#ifndef IMTCP_MEAS_H
#define IMTCP_MEAS_H

#include "meas_ack.h"
#include "meas_send.h"

#endif
