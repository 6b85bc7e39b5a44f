/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef IMTCP_ARRIVED_H
#define IMTCP_ARRIVED_H

/* Bytes of this connection that the client has acknowledged; 0 where the kernel does not say. */
long long imtcp_arrived_bytes(int fd);

#endif
