/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * ImTCP's inline measurement of available bandwidth [IM], [BG §3.1]. The Control unit decides when
 * packets leave. The Measurement unit reads their ACKs.
 *
 * One measurement [IM §3.2]
 * 1. The search range (B_l, B_u) has k sub-ranges. Each gets a stream, the highest first
 *    (stream.h).
 * 2. The trends of the streams choose a sub-range. The two lines of its stream give the result.
 * 3. Past results set the next range. The first range is (A_c/2, A_c), where A_c is the dispersion
 *    rate of packets that left back to back (Cprobe).
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
 * States
 * - STORE holds packets until m wait for a stream. T limits the hold.
 * - SEND sends them as a stream, with computed gaps.
 * - EMPTY lets held packets go after a stream, or after a hold that failed.
 * - PASS waits for the ACKs of the last stream.
 *
 * The unit has no buffer and no timer. Before each departure the caller asks for the pacing rate of
 * the gap after that packet (imtcp_meas_on_send). The caller's pacing timer does the holding: a
 * long gap holds the next packet, at most for T. A stream is a row of computed gaps. So no state
 * waits for an event that might not come. The caller may ask any number of times. The unit advances
 * only when snd_nxt has.
 *
 * Differences from the paper
 *  1. Held packets are counted as room in the window (cwnd - flight) with data waiting. A buffer
 *     below TCP would have collected them.
 *  2. A stream that leaves m packets held is followed by the next stream at once. Otherwise the
 *     room is filled at IMTCP_EMPTY_GAIN_Q8 times the ordinary rate, at most at the capacity. The
 *     paper fills it in one burst.
 *  3. The sums for a = k and a = k + 1 tie. A is below the range if every interval of stream k is
 *     strained. Other ties go to the higher sub-range. If every interval of stream a is strained, A
 *     comes from the next lower stream.
 *  4. a = 0 gives A := B_u, and a = k + 1 gives A := B_l. The paper prints the two exchanged.
 *  5. A failed store raises m. The paper prints "decrement".
 *  6. Results have a validity. Bunched ACKs and results above the sustained rate are rejected.
 *  7. The pause between measurements follows congestion. [IM §4.5] leaves it open.
 */
#ifndef IMTCP_MEAS_H
#define IMTCP_MEAS_H

#include "meas_ack.h"
#include "meas_send.h"

#endif
