package main

import (
	"errors"
	"log"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
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
	open := &streams{all: map[net.Conn]bool{}}
	go accept(listener, s, procs, open)
	<-stop
	listener.Close()
	open.close() // first, so that no client takes what killAll does for a command's own end
	procs.killAll()
	return nil
}

// streams are the connections that are open.
type streams struct {
	mu  sync.Mutex
	all map[net.Conn]bool
}

func (s *streams) serve(c *connection) {
	s.mu.Lock()
	s.all[c.stream] = true
	s.mu.Unlock()
	c.run()
	s.mu.Lock()
	delete(s.all, c.stream)
	s.mu.Unlock()
}

func (s *streams) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for stream := range s.all {
		stream.Close()
	}
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

func accept(listener *net.UnixListener, s settings, procs *processes, open *streams) {
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
		go open.serve(newConnection(stream, s, procs))
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
