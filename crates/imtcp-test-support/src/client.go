// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

// client ADDRESS PORT BYTES: as client.c, in Go, which does not use libc.
package main

import (
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"syscall"
	"unsafe"
)

func main() {
	conn, err := net.Dial("tcp", net.JoinHostPort(os.Args[1], os.Args[2]))
	if err != nil {
		panic(err)
	}
	tcp := conn.(*net.TCPConn)
	raw, _ := tcp.SyscallConn()
	raw.Control(func(fd uintptr) {
		var name [16]byte
		length := uint32(len(name))
		syscall.Syscall6(syscall.SYS_GETSOCKOPT, fd, syscall.IPPROTO_TCP, syscall.TCP_CONGESTION,
			uintptr(unsafe.Pointer(&name)), uintptr(unsafe.Pointer(&length)), 0)
		end := 0
		for end < len(name) && name[end] != 0 {
			end++
		}
		fmt.Printf("control=%s\n", name[:end])
	})
	bytes, _ := strconv.Atoi(os.Args[3])
	tcp.Write(make([]byte, bytes))
	tcp.CloseWrite()
	io.Copy(io.Discard, tcp)
}
