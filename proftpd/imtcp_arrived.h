/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef IMTCP_ARRIVED_H
#define IMTCP_ARRIVED_H

/* Bytes of this connection that the client acknowledged; 0 if the kernel does not report them. */
long long imtcp_arrived_bytes(int fd);

#endif
