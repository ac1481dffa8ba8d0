package main

import (
	"errors"
	"log"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
)

const (
	prSetDumpable       = 4
	prSetChildSubreaper = 36
)

// settings are what serve was started with; they never change.
type settings struct {
	vault     *vault
	home      string
	workspace string
}

// serve listens until SIGTERM or SIGINT, then ends all commands and returns.
func serve(socket string, s settings) error {
	shield()
	if err := prctl(prSetChildSubreaper, 1); err != nil {
		return err
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT)
	listener, err := listen(socket)
	if err != nil {
		return err
	}
	procs := newProcesses()
	s.vault.link()
	go accept(listener, s, procs)
	<-stop
	listener.Close()
	procs.killAll()
	return nil
}

// shield keeps commands, which run with our uid, out of our memory and our
// open files (/proc/<pid>/mem, /proc/<pid>/fd, ptrace).
func shield() {
	if err := prctl(prSetDumpable, 0); err != nil {
		log.Printf("can't shield this process: %v", err)
	}
}

func prctl(option, value uintptr) error {
	if _, _, errno := syscall.Syscall(syscall.SYS_PRCTL, option, value, 0); errno != 0 {
		return errno
	}
	return nil
}

func listen(socket string) (*net.UnixListener, error) {
	if !strings.HasPrefix(socket, "@") {
		if err := os.MkdirAll(filepath.Dir(socket), 0o700); err != nil {
			return nil, err
		}
		if err := os.Remove(socket); err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, err
		}
	}
	return net.ListenUnix("unix", &net.UnixAddr{Name: socket, Net: "unix"})
}

func accept(listener *net.UnixListener, s settings, procs *processes) {
	for {
		stream, err := listener.AcceptUnix()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			log.Printf("accept: %v", err)
			continue
		}
		if !sameUser(stream) {
			log.Print("refused a connection of another user")
			stream.Close()
			continue
		}
		go newConnection(stream, s, procs).run()
	}
}

// sameUser is the access check of an abstract socket, which has no file mode.
func sameUser(stream *net.UnixConn) bool {
	raw, err := stream.SyscallConn()
	if err != nil {
		return false
	}
	allowed := false
	err = raw.Control(func(fd uintptr) {
		peer, err := syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
		allowed = err == nil && (peer.Uid == 0 || int(peer.Uid) == os.Getuid())
	})
	return err == nil && allowed
}
